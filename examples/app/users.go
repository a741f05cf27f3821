// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	loadgen "github.com/xlb-project/xlb/bench/load"
)

// patience bounds each request of a user.
const patience = 10 * time.Second

// maxPage bounds what is read of a page, in bytes.
const maxPage = 1 << 20

// LoadOptions are those of every application's load.
type LoadOptions struct {
	// Targets are asked in turns, by each user.
	Targets []netip.AddrPort
	// Users is how many ask at the same time, each over one connection to a target, which is kept.
	Users    int
	Duration time.Duration
	// JSON has the report written as bench/load.Report.
	JSON bool
}

// LoadFlags reads the options from the command line; name is the program's.
func LoadFlags(name string, args []string) (LoadOptions, error) {
	var o LoadOptions
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.Func("target", "ADDRESS:PORT to ask; repeat for several", func(text string) error {
		target, err := netip.ParseAddrPort(text)
		o.Targets = append(o.Targets, target)
		return err
	})
	flags.IntVar(&o.Users, "users", 8, "users at the same time")
	flags.DurationVar(&o.Duration, "duration", 5*time.Second, "length of the load")
	flags.BoolVar(&o.JSON, "json", false, "write the report as JSON")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if len(o.Targets) == 0 || o.Users < 1 || o.Duration <= 0 {
		return o, errors.New("need --target, and --users and --duration above 0")
	}
	return o, nil
}

// User is a browser with one connection to each target, which is kept.
type User struct {
	client  *http.Client
	targets []netip.AddrPort
	asked   int
}

// NewUser has no connection yet. The i-th user begins with the i-th target.
func (o LoadOptions) NewUser(i int) *User {
	return &User{targets: o.Targets, asked: i, client: &http.Client{
		Timeout: patience,
		Transport: &http.Transport{
			DialContext:     (&net.Dialer{Timeout: patience}).DialContext,
			MaxConnsPerHost: 1, MaxIdleConnsPerHost: 1, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close ends the connections.
func (u *User) Close() { u.client.CloseIdleConnections() }

// Answer is a whole response.
type Answer struct {
	Code    int
	Status  string
	Cookies []*http.Cookie
	Page    string
}

// Do sends a request; a form makes it a POST. An answer is no error, whatever its status.
func (u *User) Do(path, form string, header http.Header) (Answer, error) {
	method, body := http.MethodGet, io.Reader(nil)
	if form != "" {
		method, body = http.MethodPost, strings.NewReader(form)
	}
	target := u.targets[u.asked%len(u.targets)]
	u.asked++
	request, err := http.NewRequest(method, "http://"+target.String()+path, body)
	if err != nil {
		return Answer{}, err
	}
	if header != nil {
		request.Header = header.Clone()
	}
	if form != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := u.client.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxPage))
	return Answer{Code: response.StatusCode, Status: response.Status, Cookies: response.Cookies(), Page: string(text)}, err
}

// Failures keeps the first few errors of a load.
type Failures struct {
	mu    sync.Mutex
	first []string // guarded by mu
}

// Add notes an error, or drops it when there are enough.
func (f *Failures) Add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.first) < 5 {
		f.first = append(f.first, err.Error())
	}
}

// String is one line for each.
func (f *Failures) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.first, "\n")
}

// Run lets all users visit again and again until the time is over. A visit that returns an error is counted as one.
func (o LoadOptions) Run(visit func(user int) error, failures *Failures) loadgen.Report {
	type result struct {
		latencies []int64
		errors    int64
	}
	results := make([]result, o.Users)
	begin := time.Now()
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() {
			for time.Since(begin) < o.Duration {
				asked := time.Now()
				if err := visit(i); err != nil {
					results[i].errors++
					failures.Add(err)
					continue
				}
				results[i].latencies = append(results[i].latencies, time.Since(asked).Microseconds())
			}
		})
	}
	group.Wait()
	report := loadgen.NewReport(time.Since(begin))
	for _, r := range results {
		report.Add(r.latencies, r.errors)
	}
	return report
}

// Write writes the report to standard output, as the options ask, and failures to standard error.
func (o LoadOptions) Write(report loadgen.Report, failures *Failures) error {
	if text := failures.String(); text != "" {
		fmt.Fprintln(os.Stderr, text)
	}
	if o.JSON {
		return json.NewEncoder(os.Stdout).Encode(report)
	}
	_, err := fmt.Printf("%d pages in %.1f s: %.0f a second, p50 %.1f ms, p99 %.1f ms, %d errors\n",
		report.Requests, float64(report.DurationUS)/1e6, report.Rate(),
		float64(report.Latency.Quantile(0.5))/1e3, float64(report.Latency.Quantile(0.99))/1e3, report.Errors)
	return err
}
