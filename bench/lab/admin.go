// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// Admin asks the admin API of an XLB.
type Admin struct {
	// HTTP connects from where the API can be reached.
	HTTP    *http.Client
	Address netip.AddrPort
}

// Get returns a page, and an error unless its status is 200.
func (a Admin) Get(path string) (string, error) {
	response, err := a.HTTP.Get("http://" + a.Address.String() + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, response.Status)
	}
	return string(body), err
}

// Metric sums the samples of a metric whose labels contain a text.
func (a Admin) Metric(name, labels string) (float64, error) {
	text, err := a.Get("/metrics")
	if err != nil {
		return 0, err
	}
	return sumOf(text, name, labels)
}

// sumOf sums samples of Prometheus's text format.
func sumOf(text, name, labels string) (sum float64, err error) {
	known := false
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || !strings.ContainsAny(rest[:1], "{ ") || !strings.Contains(rest, labels) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndex(rest, " "):]), 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", line, err)
		}
		sum += value
		known = true
	}
	if !known {
		return 0, fmt.Errorf("the daemon has no metric %s with %s", name, labels)
	}
	return sum, nil
}
