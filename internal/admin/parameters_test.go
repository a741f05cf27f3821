// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/envoytest"
)

func TestPagesRefuseWhatTheyDoNotUnderstand(t *testing.T) {
	for _, tt := range []struct{ target, want string }{
		{"/clusters?format=bogus", `parameter "format": "bogus" is none of its values; /clusters answers with text, json`},
		{"/listeners?format=yaml", `parameter "format": "yaml" is none of its values; /listeners answers with text, json`},
		{"/stats?format=html", `parameter "format": "html" is none of its values; /stats answers with text, json, prometheus`},
		{"/clusters?Format=json", `parameter "Format": unknown; /clusters takes format, view`},
		{"/clusters?format=json&format=text", `parameter "format": given 2 times; give it once`},
		{"/config_dump?resource=bogus", `parameter "resource": unknown; /config_dump takes include_eds, view`},
		{"/config_dump?include_eds&mask=x", `parameter "mask": unknown; /config_dump takes include_eds, view`},
		{"/stats?usedonly", `parameter "usedonly": unknown; /stats takes format, filter`},
		{"/stats?format=prometheus&filter=a", `parameter "filter": not with format=prometheus, which has all statistics; use format=text or json`},
		{"/stats/prometheus?usedonly", `parameter "usedonly": unknown; /stats/prometheus takes none`},
		{"/metrics?format=json", `parameter "format": unknown; /metrics takes none`},
		{"/ready?verbose=1", `parameter "verbose": unknown; /ready takes none`},
		{"/?format=json", `parameter "format": unknown; / takes none`},
		{"/xlb/pools?cluster=web", `parameter "cluster": unknown; /xlb/pools takes none`},
		{"/clusters?format=json;filter=a", `query "format=json;filter=a": invalid semicolon separator in query; want name=value, with & between them and other characters as %XX`},
		{"/xlb/explain?url=http://a/;draw=1", `query "url=http://a/;draw=1": invalid semicolon separator in query; want name=value, with & between them and other characters as %XX`},
		{"/xlb/explain?url=http://a/&url=http://b/", `parameter "url": given 2 times; give it once`},
	} {
		t.Run(tt.target, func(t *testing.T) {
			if status, body := ask(t, &state{}, http.MethodGet, tt.target); status != http.StatusBadRequest || body != tt.want+"\n" {
				t.Errorf("got %d %q, want 400 %q", status, body, tt.want)
			}
		})
	}
}

func TestPagesTakeTheParametersOfTools(t *testing.T) {
	for _, target := range []string{
		"/config_dump?include_eds", "/config_dump?include_eds=true", "/clusters?format=text", "/listeners?format=text", "/stats?format=text&filter=", "/stats?filter=a%20b",
	} {
		if status, body := ask(t, &state{}, http.MethodGet, target); status != http.StatusOK {
			t.Errorf("%s: %d %s", target, status, body)
		}
	}
}

func TestWithoutParameters(t *testing.T) {
	h := WithoutParameters(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "yes") }))
	for target, want := range map[string]int{"/heels/status": http.StatusOK, "/heels/status?role=client": http.StatusBadRequest} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		if w.Code != want {
			t.Errorf("%s: %d %s, want %d", target, w.Code, w.Body, want)
		}
	}
}

// TestPagesRefuseWhatEnvoyRefuses asks a real Envoy the same.
func TestPagesRefuseWhatEnvoyRefuses(t *testing.T) {
	address := envoytest.FreeAddress(t)
	bootstrap, err := json.Marshal(object{"admin": object{"address": socketAddress(address)}})
	if err != nil {
		t.Fatal(err)
	}
	envoytest.Start(t, bootstrap).Dial(t, address)
	client := &http.Client{Timeout: await.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	refused := 0
	for _, target := range []string{
		"/clusters?format=bogus", "/listeners?format=bogus", "/stats?format=bogus", "/stats?filter=(", "/stats?type=bogus", "/stats?histogram_buckets=bogus",
		"/stats/prometheus?histogram_buckets=bogus", "/config_dump?resource=bogus", "/config_dump?mask=bogus", "/config_dump?name_regex=(", "/config_dump?bogus",
		"/ready?bogus", "/nosuch",
	} {
		response, err := client.Get("http://" + address.String() + target)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		t.Logf("%s: %d %.80q", target, response.StatusCode, strings.TrimSpace(string(body)))
		if response.StatusCode < 400 {
			continue
		}
		refused++
		if status, _ := ask(t, &state{}, http.MethodGet, target); status < 400 || status >= 500 {
			t.Errorf("%s: got %d, Envoy answers %d %s", target, status, response.StatusCode, body)
		}
	}
	if refused == 0 {
		t.Error("Envoy refused nothing: it was not asked")
	}
}
