// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/certtest"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/noeffect"
)

// noEffectAsk is a request, written as it is.
type noEffectAsk struct {
	name, text string
	// tcp: it goes to the listener without HTTP.
	tcp bool
}

// mirrored is the one of which a copy is made.
const mirrored = "mirror"

// noEffectAsks go through every message in which a row of noeffect sets a field. Each is the only one of its connection.
var noEffectAsks = []noEffectAsk{
	{name: "plain", text: lastAsk("GET", "/plain")},
	{name: "HEAD", text: lastAsk("HEAD", "/plain")},
	{name: "headers of a proxy", text: lastAsk("GET", "/plain", "X-Request-Id: 11111111-2222-4333-8444-555555555555", "X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https", "x_low: a", "X-B3-Sampled: 1")},
	{name: "body", text: lastAsk("POST", "/plain", "Content-Length: 65536") + strings.Repeat("b", 65536)},
	{name: "chunks", text: lastAsk("POST", "/plain", "Transfer-Encoding: chunked") + "3\r\nabc\r\n0\r\n\r\n"},
	{name: "gRPC", text: lastAsk("POST", "/plain", "Content-Type: application/grpc", "Grpc-Timeout: 5S", "Content-Length: 3") + "abc"},
	{name: "gRPC, limited", text: lastAsk("POST", "/limited", "Content-Type: application/grpc", "Grpc-Timeout: 5S", "Content-Length: 3") + "abc"},
	{name: "expectation", text: lastAsk("POST", "/plain", "Expect: 100-continue", "Content-Length: 3") + "abc"},
	{name: "no route", text: lastAsk("GET", "/none")},
	{name: "no host", text: "GET /plain HTTP/1.1\r\nConnection: close\r\n\r\n"},
	{name: "retries", text: lastAsk("GET", "/retry")},
	{name: "retries with a body", text: lastAsk("POST", "/retry", "Content-Length: 65536") + strings.Repeat("b", 65536)},
	{name: "weights", text: lastAsk("GET", "/weighted")},
	{name: mirrored, text: lastAsk("GET", "/mirror")},
	{name: "CORS", text: lastAsk("GET", "/cors", "Origin: http://friend.test")},
	{name: "CORS of a stranger", text: lastAsk("GET", "/cors", "Origin: http://stranger.test")},
	{name: "preflight", text: lastAsk("OPTIONS", "/cors", "Origin: http://friend.test", "Access-Control-Request-Method: GET")},
	{name: "fault", text: lastAsk("GET", "/plain", "X-Fault: 1")},
	{name: "checked", text: lastAsk("GET", "/checked")},
	{name: "by name", text: lastAsk("GET", "/named")},
	{name: "TLS", text: lastAsk("GET", "/tls")},
	{name: "nobody", text: lastAsk("GET", "/closed")},
	{name: "direct response", text: lastAsk("GET", "/direct")},
	{name: "limits", text: lastAsk("GET", "/limited")},
	{name: "TCP", text: lastAsk("GET", "/tcp"), tcp: true},
}

func lastAsk(method, path string, headers ...string) string {
	lines := append([]string{method + " " + path + " HTTP/1.1", "Host: shop.test", "Connection: close"}, headers...)
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

// caseHeader tells the endpoint which request it gets.
const caseHeader = "X-Case"

// noEffectOrigin is an endpoint that keeps what it is asked, but for health checks.
type noEffectOrigin struct {
	mu sync.Mutex
	// seen are requests by the value of caseHeader.
	seen map[string][]string
	// words of base.yaml that lead to it.
	words map[string]string
}

func newNoEffectOrigin(t *testing.T) *noEffectOrigin {
	t.Helper()
	o := &noEffectOrigin{seen: map[string][]string{}, words: map[string]string{"dir": t.TempDir()}}
	authority := certtest.Sign(t, certtest.Authority(), nil)
	own := certtest.Sign(t, &x509.Certificate{KeyUsage: x509.KeyUsageDigitalSignature}, authority)
	for name, text := range map[string]string{"ca.pem": authority.PEM(), "own.pem": own.PEM(), "own.key": own.KeyPEM(t)} {
		if err := os.WriteFile(filepath.Join(o.words["dir"], name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secured := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own.TLS()}}
	o.words["origin"] = o.serve(t, nil)
	o.words["tls"] = o.serve(t, secured)
	return o
}

// serve returns the port.
func (o *noEffectOrigin) serve(t *testing.T, secured *tls.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if secured != nil {
		l = tls.NewListener(l, secured)
	}
	server := &http.Server{Handler: o, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }()
	return port
}

func (o *noEffectOrigin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/health" {
		return
	}
	text, err := httputil.DumpRequest(r, true)
	if err != nil {
		text = []byte(err.Error())
	}
	o.mu.Lock()
	name := r.Header.Get(caseHeader)
	o.seen[name] = append(o.seen[name], steady(string(text)))
	o.mu.Unlock()
	w.Header()["Date"] = nil
	w.Header().Set("X-Answer", "a")
	if r.URL.Path == "/retry" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = io.WriteString(w, "answer of the endpoint") // the client may have gone
}

// take returns what it was asked for a request that is answered, in an order of its own: of one that is mirrored the copy may come later.
func (o *noEffectOrigin) take(t *testing.T, name string) []string {
	t.Helper()
	var seen []string
	harness.Eventually(t, await.Patience, "the copy of a request comes", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		seen = slices.Clone(o.seen[name])
		return name != mirrored || len(seen) == 2
	})
	slices.Sort(seen)
	return seen
}

// unsteady are headers whose values differ each time, of Envoy.
var unsteady = regexp.MustCompile(`(?im)^(date|x-request-id|x-envoy-upstream-service-time):.*$`)

func steady(text string) string { return unsteady.ReplaceAllString(text, "$1: *") }

// noEffectRun is what a balancer with a bootstrap answers, and what its endpoint sees, by the name of the request.
func noEffectRun(t *testing.T, envoy bool, rows []noeffect.Row) (told map[string]string) {
	t.Helper()
	place, origin := harness.SameHost(t), newNoEffectOrigin(t)
	web, tcp := harness.Service(), harness.Service()
	words := origin.words
	words["host"], words["port"] = web.Addr().String(), strconv.Itoa(int(web.Port()))
	words["tcphost"], words["tcpport"] = tcp.Addr().String(), strconv.Itoa(int(tcp.Port()))
	words["nobody"] = strconv.Itoa(int(place.FreePort(t)))
	fields, err := noeffect.Bootstrap(words, rows)
	if err != nil {
		t.Fatal(err)
	}
	config := harness.Config{Admin: fields["admin"].(map[string]any), Fields: fields}
	delete(fields, "admin")
	if envoy {
		harness.StartEnvoy(t, config, place)
	} else {
		harness.Start(t, harness.Mode{Fast: harness.FastPath(t)}, config, place)
	}
	for _, path := range []string{"/checked", "/named", "/tls"} {
		harness.Eventually(t, await.Patience, path+" has endpoints", func() bool {
			answer := noEffectAnswers(t, place, web, tcp, noEffectAsk{name: "before", text: lastAsk("GET", path)})[0]
			return strings.HasPrefix(answer, "HTTP/1.1 200")
		})
	}
	told = map[string]string{}
	for i, answer := range noEffectAnswers(t, place, web, tcp, noEffectAsks...) {
		name := noEffectAsks[i].name
		told[name] = answer + "\n\n" + strings.Join(origin.take(t, name), "\n\n")
	}
	return told
}

// noEffectAnswers are all that comes back, to each until its connection is closed.
func noEffectAnswers(t *testing.T, place *harness.Place, web, tcp netip.AddrPort, asks ...noEffectAsk) []string {
	t.Helper()
	var sends []programs.RawSend
	for _, a := range asks {
		to := web
		if a.tcp {
			to = tcp
		}
		line, rest, _ := strings.Cut(a.text, "\r\n")
		sends = append(sends, programs.RawSend{Address: to.String(), Bytes: []byte(line + "\r\n" + caseHeader + ": " + a.name + "\r\n" + rest)})
	}
	var told []string
	for i, answer := range playRaw(t, place, programs.RawSpec{Sends: sends, Quiet: await.Patience}) {
		if answer.Error != "" || !answer.Closed {
			t.Errorf("%s: %s; the connection is closed: %v", asks[i].name, answer.Error, answer.Closed)
		}
		told = append(told, steady(string(answer.Bytes)))
	}
	return told
}

// The fields of a group are set at once: each of them is to change nothing, whatever the others are. Where something has changed each is set by itself.
func TestFieldsWithoutEffectChangeNothingInEnvoyEither(t *testing.T) {
	harness.OnlyXLB(t, "it runs both")
	groups := map[string][]noeffect.Row{}
	for _, row := range noeffect.Rows {
		switch {
		case row.Why != "", row.Differs:
		case row.Table == noeffect.OfControlPlane:
			groups["sent"] = append(groups["sent"], row)
		case row.Alone:
			groups["others"] = append(groups["others"], row)
		default:
			groups["together"] = append(groups["together"], row)
		}
	}
	for name, balancer := range map[string]struct {
		envoy  bool
		groups []string
	}{
		"envoy": {true, []string{"together", "others", "sent"}},
		// What a control plane alone may send is refused in a file.
		"xlb": {false, []string{"together", "others"}},
	} {
		t.Run(name, func(t *testing.T) {
			var without map[string]string
			t.Run("without", func(t *testing.T) { without = noEffectRun(t, balancer.envoy, nil) })
			for _, group := range balancer.groups {
				t.Run(group, func(t *testing.T) {
					if cmp.Diff(without, noEffectRun(t, balancer.envoy, groups[group])) == "" {
						return
					}
					for _, row := range groups[group] {
						t.Run(row.Message+"."+row.Field, func(t *testing.T) {
							if diff := cmp.Diff(without, noEffectRun(t, balancer.envoy, []noeffect.Row{row})); diff != "" {
								t.Errorf("%s (-without +with):\n%s", row.Value, diff)
							}
						})
					}
				})
			}
		})
	}
}

// What is passed over is not called without effect for nothing: Envoy answers, or asks, otherwise with it.
func TestFieldsThatArePassedOverChangeWhatEnvoyDoes(t *testing.T) {
	harness.OnlyXLB(t, "it runs Envoy")
	var without map[string]string
	t.Run("without", func(t *testing.T) { without = noEffectRun(t, true, nil) })
	for _, row := range noeffect.Rows {
		if row.Why != "" || !row.Differs {
			continue
		}
		t.Run(row.Message+"."+row.Field, func(t *testing.T) {
			if cmp.Equal(without, noEffectRun(t, true, []noeffect.Row{row})) {
				t.Errorf("%s changes nothing: say in internal/config that it has no effect", row.Value)
			}
		})
	}
}
