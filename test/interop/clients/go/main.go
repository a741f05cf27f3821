// SPDX-License-Identifier: Apache-2.0

// Command go is the client of the interop matrix that uses Go's net/http.
package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// patience bounds one request.
const patience = 30 * time.Second

var base, directory string

func main() {
	base, directory = os.Args[1], os.Args[2]
	answers := json.NewEncoder(os.Stdout)
	for names := bufio.NewScanner(os.Stdin); names.Scan(); {
		if err := answers.Encode(answer(names.Text())); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// outcome is what package interop calls an answer.
type outcome struct {
	Statuses  map[string]int `json:"statuses"`
	SHA256    string         `json:"sha256"`
	Length    int64          `json:"length"`
	Trailer   string         `json:"trailer"`
	Continued bool           `json:"continued"`
	Error     string         `json:"error"`
	bodies    bytes.Buffer
}

func answer(name string) *outcome {
	o := &outcome{Statuses: map[string]int{}}
	do, known := cases[name]
	if !known {
		o.Error = "unknown case " + name
		return o
	}
	if err := do(newClient(), o); err != nil {
		o.Error = err.Error()
	}
	digest := sha256.Sum256(o.bodies.Bytes())
	o.SHA256 = hex.EncodeToString(digest[:])
	return o
}

var cases = map[string]func(*http.Client, *outcome) error{
	"get100":       func(c *http.Client, o *outcome) error { return o.small(c, 100) },
	"down":         func(c *http.Client, o *outcome) error { return o.get(c, "/large") },
	"chunked-down": func(c *http.Client, o *outcome) error { return o.get(c, "/chunked") },
	"trailer-down": trailerDown,
	"up":           func(c *http.Client, o *outcome) error { return o.put(c, "up", "large", plain) },
	"chunked-up":   func(c *http.Client, o *outcome) error { return o.put(c, "chunked-up", "chunked", chunked) },
	"trailer-up":   func(c *http.Client, o *outcome) error { return o.put(c, "trailer-up", "chunked", withTrailer) },
	"expect":       func(c *http.Client, o *outcome) error { return o.put(c, "expect", "chunked", expecting) },
	"head":         head,
	"not-modified": notModified,
	"concurrent":   concurrent,
}

// newClient returns a client with connections of its own.
func newClient() *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{ExpectContinueTimeout: patience}}
}

// do makes a request and adds what came of it.
func (o *outcome) do(client *http.Client, request *http.Request) (*http.Response, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	o.Statuses[strconv.Itoa(response.StatusCode)]++
	if _, err := io.Copy(&o.bodies, response.Body); err != nil {
		return nil, err
	}
	if value := response.Trailer.Get("X-Check"); value != "" {
		o.Trailer = value
	}
	return response, nil
}

func (o *outcome) get(client *http.Client, path string) error {
	request, err := http.NewRequest(http.MethodGet, base+path, nil)
	if err != nil {
		return err
	}
	_, err = o.do(client, request)
	return err
}

func trailerDown(client *http.Client, o *outcome) error {
	request, err := http.NewRequest(http.MethodGet, base+"/chunked", nil)
	if err != nil {
		return err
	}
	request.Header = http.Header{"Te": {"trailers"}, "Connection": {"TE"}}
	_, err = o.do(client, request)
	return err
}

func (o *outcome) small(client *http.Client, n int) error {
	for i := range n {
		if err := o.get(client, fmt.Sprintf("/small/%02d", i)); err != nil {
			return err
		}
	}
	return nil
}

// put uploads a file; set decides how.
func (o *outcome) put(client *http.Client, name, file string, set func(*http.Request, *outcome)) error {
	content, err := os.ReadFile(filepath.Join(directory, file))
	if err != nil {
		return err
	}
	request, err := http.NewRequest(http.MethodPut, base+"/upload/"+name, bytes.NewReader(content))
	if err != nil {
		return err
	}
	set(request, o)
	_, err = o.do(client, request)
	return err
}

func plain(*http.Request, *outcome) {}

// chunked leaves net/http without a length.
func chunked(request *http.Request, _ *outcome) { request.ContentLength = -1 }

func withTrailer(request *http.Request, _ *outcome) {
	request.ContentLength = -1
	request.Trailer = http.Header{"X-Check": {"interop"}}
}

func expecting(request *http.Request, o *outcome) {
	request.Header.Set("Expect", "100-continue")
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
		o.Continued = o.Continued || code == http.StatusContinue
		return nil
	}}
	*request = *request.WithContext(httptrace.WithClientTrace(request.Context(), trace))
}

func head(client *http.Client, o *outcome) error {
	request, err := http.NewRequest(http.MethodHead, base+"/large", nil)
	if err != nil {
		return err
	}
	response, err := o.do(client, request)
	if err != nil {
		return err
	}
	o.Length = response.ContentLength
	return o.small(client, 1)
}

func notModified(client *http.Client, o *outcome) error {
	request, err := http.NewRequest(http.MethodGet, base+"/small/00", nil)
	if err != nil {
		return err
	}
	first, err := o.do(client, request)
	if err != nil {
		return err
	}
	request.Header.Set("If-None-Match", first.Header.Get("ETag"))
	if _, err := o.do(client, request); err != nil {
		return err
	}
	return o.small(client, 1)
}

// concurrent lets eight clients make 25 requests each.
func concurrent(_ *http.Client, o *outcome) error {
	var outcomes [8]outcome
	var wait sync.WaitGroup
	for i := range outcomes {
		outcomes[i].Statuses = map[string]int{}
		wait.Go(func() {
			if err := outcomes[i].small(newClient(), 25); err != nil {
				outcomes[i].Error = err.Error()
			}
		})
	}
	wait.Wait()
	for i := range outcomes {
		o.merge(&outcomes[i])
	}
	return nil
}

func (o *outcome) merge(other *outcome) {
	for status, n := range other.Statuses {
		o.Statuses[status] += n
	}
	// Neither side of this copy can fail.
	_, _ = other.bodies.WriteTo(&o.bodies)
	if o.Error == "" {
		o.Error = other.Error
	}
}
