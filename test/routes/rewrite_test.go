// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/test/envoytest"
	"github.com/xlb-project/xlb/test/tcptest"
)

// rewriting is a route that changes path or host, and what requests for it ask.
type rewriting struct {
	name, kind string
	action     Object
	asks       []string
}

func regexAndSubstitution(regex, with string) Object {
	return Object{"pattern": Object{"regex": regex}, "substitution": with}
}

// oddRewritings leave nothing, a path without "/", or a host that is none. Each route's paths begin with its name.
func oddRewritings() []rewriting {
	forward := func(name string, action Object, asks ...string) rewriting {
		action["cluster"] = "a"
		return rewriting{name, "route", action, asks}
	}
	redirect := func(name string, action Object, asks ...string) rewriting {
		return rewriting{name, "redirect", action, asks}
	}
	usual := []string{"", "?", "?q", "/a", "/a?q", "//"}
	hosts := []string{"a", "a:1", "", "a:b", "a/b", "a@b", "[::1]", "[::1", "%41", "a,b", ":80", "a:", "a:b:c", "?q", "a:99999", `"`, "<a>", "*"}
	return []rewriting{
		forward("/gone", Object{"regex_rewrite": regexAndSubstitution("^/gone(/.*)?$", `\1`)}, usual...),
		forward("/none", Object{"regex_rewrite": regexAndSubstitution("^.*$", "")}, usual...),
		forward("/bare", Object{"regex_rewrite": regexAndSubstitution("^/", "")}, usual...),
		forward("/star", Object{"regex_rewrite": regexAndSubstitution("^.*$", "*")}, usual...),
		forward("/url", Object{"regex_rewrite": regexAndSubstitution("^/url", "http://else.test")}, usual...),
		forward("/query", Object{"regex_rewrite": regexAndSubstitution("^/query", "?a=b")}, usual...),
		forward("/double", Object{"regex_rewrite": regexAndSubstitution("^/double", "//d")}, usual...),
		forward("/miss", Object{"regex_rewrite": regexAndSubstitution("never", "")}, usual...),
		forward("/unset", Object{"prefix_rewrite": ""}, usual...),
		forward("/prefix", Object{"prefix_rewrite": "bare"}, usual...),
		forward("/pstar", Object{"prefix_rewrite": "*"}, usual...),
		forward("/purl", Object{"prefix_rewrite": "http://else.test"}, usual...),
		forward("/pquery", Object{"prefix_rewrite": "?a"}, usual...),
		forward("/hpath", Object{"host_rewrite_path_regex": regexAndSubstitution("^/hpath/([a-z]+)$", `\1`), "append_x_forwarded_host": true}, usual...),
		forward("/hnone", Object{"host_rewrite_path_regex": regexAndSubstitution("^.*$", ""), "append_x_forwarded_host": true}, usual...),
		forward("/hany", Object{"host_rewrite_path_regex": regexAndSubstitution("^/hany(.*)$", `\1`)}, hosts...),
		forward("/both", Object{"host_rewrite_path_regex": regexAndSubstitution("^/both", ""), "regex_rewrite": regexAndSubstitution("^/both", "")}, usual...),
		forward("/header", Object{"host_rewrite_header": "x-to"}, usual...),
		redirect("/rgone", Object{"regex_rewrite": regexAndSubstitution("^/rgone(/.*)?$", `\1`)}, usual...),
		redirect("/rnone", Object{"regex_rewrite": regexAndSubstitution("^.*$", ""), "strip_query": true}, usual...),
		redirect("/rbare", Object{"regex_rewrite": regexAndSubstitution("^/", "")}, usual...),
		redirect("/rurl", Object{"regex_rewrite": regexAndSubstitution("^/rurl", "http://else.test")}, usual...),
		redirect("/rquery", Object{"regex_rewrite": regexAndSubstitution("^/rquery", "?a")}, usual...),
		redirect("/rprefix", Object{"prefix_rewrite": "bare"}, usual...),
		redirect("/rpquery", Object{"prefix_rewrite": "?x"}, usual...),
		redirect("/runset", Object{"prefix_rewrite": ""}, usual...),
		redirect("/rpath", Object{"path_redirect": ""}, usual...),
		redirect("/rthere", Object{"path_redirect": "there"}, usual...),
		redirect("/rpathq", Object{"path_redirect": "?a"}, usual...),
		redirect("/rpathe", Object{"path_redirect": "?"}, usual...),
	}
}

// TestRewritesThatLeaveNoPathOrNoHostAreThoseOfEnvoy: what the endpoint gets, and what the client is told.
func TestRewritesThatLeaveNoPathOrNoHostAreThoseOfEnvoy(t *testing.T) {
	envoytest.Binary(t)
	for _, announced := range []bool{false, true} {
		t.Run(fmt.Sprintf("announced %t", announced), func(t *testing.T) {
			rewritings := oddRewritings()
			e, p := startRewriters(t, rewritings, announced)
			for _, rewriting := range rewritings {
				for _, ask := range rewriting.asks {
					for _, to := range []string{"-", "", "x.test", "a b", "/x", "a@b", "é", "a\tb"} {
						if to != "-" && rewriting.name != "/header" {
							break
						}
						r := &Request{Method: "GET", Host: "a.test:81", Target: rewriting.name + ask, Headers: [][2]string{{"X-To", to}}}
						if to == "-" {
							r.Headers = nil
						}
						if diff := cmp.Diff(e.send(t, 0, r), p.send(t, 0, r)); diff != "" {
							t.Errorf("%v, %q (-Envoy +XLB):\n%s", rewriting.action, r.Bytes(), diff)
						}
					}
				}
			}
		})
	}
}

// startRewriters runs Envoy and the slow path with these routes, and with the headers that tell an endpoint of a rewrite, or without.
func startRewriters(t *testing.T, rewritings []rewriting, announced bool) (envoy, xlb *peer) {
	t.Helper()
	var list []any
	for _, r := range rewritings {
		list = append(list, Object{
			"match": Object{"prefix": r.name}, r.kind: r.action,
			"response_headers_to_add": []any{Object{"header": Object{"key": "x-now", "value": "%REQ(:path)%"}}},
		})
	}
	addresses := freeAddresses(t, 1)
	table := &ActionTable{Config: Object{"name": "table", "virtual_hosts": []any{Object{"name": "vh", "domains": []any{"*"}, "routes": list}}}}
	listener := ActionListener(table, "table", addresses[0])
	manager := listener["filter_chains"].([]any)[0].(Object)["filters"].([]any)[0].(Object)["typed_config"].(Object)
	router := manager["http_filters"].([]any)[0].(Object)["typed_config"].(Object)
	router["suppress_envoy_headers"] = !announced
	bootstrap, err := json.Marshal(Object{"static_resources": Object{
		"listeners": []any{listener}, "clusters": []any{clusterAt("a", echoEndpoint(t))},
	}})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("rewrites.json", bootstrap, config.EnvoyHeaders(announced))
	if err != nil {
		t.Fatal(err)
	}
	e := launchEnvoy(t, bootstrap, addresses)
	e.conns[0] = e.process.Dial(t, e.addresses[0])
	p := startProxy(t, cfg)
	p.lines = told
	return &peer{addresses: e.addresses, conns: e.conns, lines: told}, p
}

// told is where a client is sent, and the path that headers of the response name.
func told(h http.Header) []string { return []string{h.Get("Location"), h.Get("X-Now")} }

// echoEndpoint runs a server that takes any head, and answers with its request line and with the fields that a rewrite is about.
func echoEndpoint(t *testing.T) netip.AddrPort {
	t.Helper()
	return tcptest.Listen(t, echoHeads)
}

// echoHeads answers the requests of a connection, none of which has a body.
func echoHeads(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		text, ok := readEcho(r)
		if !ok {
			return
		}
		if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text); err != nil {
			return
		}
	}
}

// readEcho is the answer to the next head; ok is false where none comes.
func readEcho(r *bufio.Reader) (text string, ok bool) {
	var lines []string
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", false
		}
		if line == "\r\n" {
			slices.Sort(lines[1:])
			return strings.Join(lines, ""), true
		}
		name, value, _ := strings.Cut(line, ":")
		switch name = strings.ToLower(name); {
		case len(lines) == 0:
			lines = append(lines, line)
		case name == "host", name == "x-forwarded-host", strings.HasPrefix(name, "x-envoy-original"):
			lines = append(lines, name+":"+value)
		}
	}
}
