// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"io"
	"net/http"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

func TestFieldsWithUnderscores(t *testing.T) {
	seen := make(chan http.Header, 1)
	endpoint := httpEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		w.WriteHeader(http.StatusNoContent)
	})
	for _, tt := range []struct {
		rule   rewrite.Underscores
		status int
		passes bool
	}{
		{rewrite.PassUnderscores, http.StatusNoContent, true},
		{rewrite.DropUnderscores, http.StatusNoContent, false},
		{rewrite.RefuseUnderscores, http.StatusBadRequest, false},
	} {
		f := newFront(t, list(endpoint), func(c *Config, _ *model.Route) {
			before := activeOf(c).routes
			activeOf(c).routes = func(name string) (*model.RouteTable, bool) {
				table, ok := before(name)
				with := *table
				with.Underscores = tt.rule
				return &with, ok
			}
		})
		c := f.dial()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\na_b: c\r\nd: _\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != tt.status || resp.Close != (tt.status == http.StatusBadRequest) {
			t.Errorf("rule %d: status %d, close %t", tt.rule, resp.StatusCode, resp.Close)
		}
		if tt.status != http.StatusNoContent {
			continue
		}
		header := <-seen
		if _, passed := header["A_b"]; passed != tt.passes || header.Get("d") != "_" {
			t.Errorf("rule %d: the endpoint got %v", tt.rule, header)
		}
	}
}
