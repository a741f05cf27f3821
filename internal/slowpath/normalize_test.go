// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"io"
	"net/http"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

func TestPathIsRoutedAndSentOnAsTheTableChangesIt(t *testing.T) {
	table := &model.RouteTable{
		Path: rewrite.PathRule{Normalize: true, MergeSlashes: true, EscapedSlashes: rewrite.RedirectSlashes},
		// What no endpoint is asked for passes no filter either.
		Filters: []model.Filter{model.FilterFault},
		Fault:   &model.Fault{Status: http.StatusTeapot, AbortShare: matcher.Fraction{Numerator: 1, Denominator: 1}},
		VirtualHosts: []*model.VirtualHost{{Domains: []string{"*"}, Routes: []*model.Route{{
			Path: matcher.PathMatch{Value: "/b"}, Rewrite: rewrite.PathRewrite{Prefix: "/c"}, Clusters: []model.WeightedCluster{{Name: "c", Weight: 1}},
		}}}},
	}
	targets := make(chan string, 1)
	endpoint := httpEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		targets <- r.RequestURI
		w.WriteHeader(http.StatusNoContent)
	})
	f := newFront(t, list(endpoint), func(c *Config, _ *model.Route) {
		activeOf(c).routes = func(string) (*model.RouteTable, bool) { return table, true }
	})
	for _, tt := range []struct {
		line, target, location string
		status                 int
		closes                 bool
	}{
		{line: "GET /a/..//b/x%61?y//..", target: "/c/xa?y//..", status: http.StatusNoContent},
		{line: "GET http://a/%62", target: "/c", status: http.StatusNoContent},
		{line: "GET /a/../%2fb?c", location: "/b?c", status: http.StatusTemporaryRedirect},
		{line: "GET /b/%00", status: http.StatusBadRequest, closes: true},
		{line: "GET /a", status: http.StatusTeapot},
	} {
		c := f.dial()
		if _, err := io.WriteString(c, tt.line+" HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != tt.status || resp.Header.Get("Location") != tt.location || resp.Close != tt.closes {
			t.Errorf("%s: status %d, location %q, close %t", tt.line, resp.StatusCode, resp.Header.Get("Location"), resp.Close)
			continue
		}
		if tt.target == "" {
			continue
		}
		if got := <-targets; got != tt.target {
			t.Errorf("%s: the endpoint got %q, want %q", tt.line, got, tt.target)
		}
	}
}
