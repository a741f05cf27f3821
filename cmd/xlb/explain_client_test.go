// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/explain"
)

func TestExplainSaysWhetherAClientIsBalanced(t *testing.T) {
	address := adminAPI(t)
	for _, tt := range []struct {
		name string
		args []string
		code int
	}{
		{"served", []string{"--pod", "shop/web-7d4b9c6f5-x2x7k"}, exitOK},
		{"excluded", []string{"--pod", "shop/batch"}, exitFailure},
		{"leaving", []string{"--pod", cartUID}, exitFailure},
		{"hostile", []string{"--pod", "\x1b[2J/a\nb"}, exitFailure},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := slices.Concat([]string{"explain", "GET", "http://127.80.0.1:8080/cart", "--draw", "57", "--admin", address}, tt.args)
			code, stdout, stderr := call(t, args...)
			if code != tt.code {
				t.Errorf("code: got %d, want %d", code, tt.code)
			}
			compareOutput(t, "explain-client-"+tt.name+".txt", stdout+stderr)
		})
	}
	is, err := namespaceOfProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	ofThis := []string{"explain", "GET", "http://127.80.0.1:8080/", "--pid", number(uint64(os.Getpid())), "--admin"}
	code, stdout, stderr := call(t, append(ofThis, address)...)
	name, state := "network namespace "+number(is), "the daemon does not serve it, or not yet\n"
	if code != exitFailure || !strings.Contains(stdout, "\nworkload      "+name+": NOT BALANCED: "+state) || !strings.HasSuffix(stderr, "explain: new connections of the client ("+name+") are not balanced: "+state) {
		t.Errorf("not known: code %d, stderr %q, stdout:\n%s", code, stderr, stdout)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query().Get("netns"); got != number(is) {
			t.Errorf("%s asks about netns %q, want %d", r.URL, got, is)
		}
		http.Error(w, "enough", http.StatusBadRequest)
	}))
	t.Cleanup(server.Close)
	if code, _, stderr := call(t, append(ofThis, server.Listener.Addr().String())...); code != exitRefused || stderr != "xlb: enough\n" {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
}

func TestExplainOfAClientInJSON(t *testing.T) {
	code, stdout, _ := call(t, "explain", "GET", "http://127.80.0.1:8080/", "--pod", "shop/batch", "--admin", adminAPI(t), "-o", "json")
	want := `"workload": {
    "netns": 4026532806,
    "id": 7,
    "name": "shop/batch",
    "state": "excluded",
    "why": "label istio.io/dataplane-mode: none",
    "balanced": false
  },`
	if code != exitFailure || !strings.Contains(stdout, want) || !strings.Contains(stdout, "new connections of the client are not balanced") {
		t.Errorf("code %d, stdout:\n%s", code, stdout)
	}
	a := &explain.Answer{Workload: &explain.Workload{State: "leaving"}, Disagreement: "the kernel sends the request elsewhere"}
	if err := verdictOn(a); err == nil || !strings.Contains(err.Error(), "defect of XLB") {
		t.Errorf("a defect of XLB has to come first: %v", err)
	}
}
