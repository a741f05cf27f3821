// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
	"github.com/xlb-project/xlb/internal/slowpath/policy"
)

// Whatever has a regular expression rewrite a long value yields the ticket meanwhile.
func TestLongRewritesLetOthersWork(t *testing.T) {
	long, err := matcher.NewSubstitution(`a.{100}b`, "x")
	if err != nil {
		t.Fatal(err)
	}
	value := "/" + strings.Repeat("a", 32<<10)
	hashes := model.HashPolicies{{Kind: model.HashHeader, Name: "x", Rewrite: long}}
	conn, peer, err := pair(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	defer peer.Close()
	for name, does := range map[string]struct {
		route model.Route
		work  func(x *exchange)
	}{
		"path":     {model.Route{Rewrite: rewrite.PathRewrite{Regex: long}}, func(x *exchange) { x.Rewrite() }},
		"host":     {model.Route{Host: rewrite.HostRewrite{Path: long}}, func(x *exchange) { x.Rewrite() }},
		"redirect": {model.Route{Redirect: &model.Redirect{Rewrite: rewrite.PathRewrite{Regex: long}}}, func(x *exchange) { x.RouteAnswer() }},
		"hash": {model.Route{Hash: hashes}, func(x *exchange) {
			x.hash.Find(&x.Request, &model.Cluster{Policy: model.RingHash})
		}},
		"share": {model.Route{Hash: hashes, DrawByHash: true, Clusters: []model.WeightedCluster{{Name: "c", Weight: 1}}}, func(x *exchange) { policy.ChooseCluster(&x.Request) }},
	} {
		t.Run(name, func(t *testing.T) {
			scheduler := shares.NewScheduler(shares.Limits{AtWork: 1, Waiting: 10})
			x := &exchange{
				downstream: &downstream{conn: conn, ticket: scheduler.Ticket(shares.Path{1})},
				Request:    headers.Request{Conn: conn, Route: &does.route, Table: &model.RouteTable{}},
			}
			x.Pacer = x
			x.Head = head.Head{Path: value, Authority: "a", Fields: []field{{Name: []byte("x"), Value: []byte(value)}}}
			// The ticket has been stopped since it ran for long, and another runs.
			other := scheduler.Ticket(shares.Path{2})
			other.Begin()
			defer other.Yield()
			defer x.ticket.Yield()
			does.work(x)
			if scheduler.Counts().Waited == 0 {
				t.Error("all of it was done while another ticket ran")
			}
		})
	}
}
