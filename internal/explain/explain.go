// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/compile/routes"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/internal/plural"
)

// State is a configuration, and how it is served.
type State struct {
	Config *model.Config
	// Notes of the compiler about it.
	Notes []note.Note
	// Decide says what the fast path does with a request as it is received, of which the head is given as a client sends it too.
	Decide func(l *model.Listener, r *matcher.Request, head []byte) (Decision, error)
	// Endpoints of a cluster.
	Endpoints func(cluster model.ClusterKey) ([]Endpoint, error)
	// Workload is the network namespace with that inode number; it returns nil for one that is not known. nil: there is no daemon that knows any.
	Workload func(netns uint64) *Workload
	// Views are the names of all but the shared one.
	Views []string
}

// Decision is the fast path's.
type Decision struct {
	// By is ByKernel, ByCompiler or ByNobody; of the last nothing else is set.
	By string
	// Verdict is VerdictOk for a request that is taken, to Cluster, as the listener's view calls it, and with Timeout, 0 for none.
	Verdict maps.Verdict
	Cluster string
	// Criteria name a subset of the cluster; empty is the cluster itself.
	Criteria model.Metadata
	Timeout  time.Duration
}

// Explain answers a query. What is wrong with that is a *QueryError.
func Explain(s *State, q *Query) (*Answer, error) {
	parsed, err := q.parse()
	if err != nil {
		return nil, err
	}
	client, err := s.client(q)
	if err != nil {
		return nil, err
	}
	view, err := s.viewFor(q, client)
	if err != nil {
		return nil, err
	}
	l, err := listenerFor(s.Config, view, q, parsed.service)
	if err != nil {
		return nil, err
	}
	if l.TCP != nil {
		return nil, queryError("listener %q: it has the filter tcp_proxy, which balances connections and reads no requests", l.Name)
	}
	scope := s.Config.In(l.View)
	r := parsed.forTable(l.Routes)
	d, err := s.Decide(l, parsed.forTable(&model.RouteTable{}), parsed.head())
	if err != nil {
		return nil, fmt.Errorf("listener %q: %w", l.Name, err)
	}
	var outcome rewrite.PathOutcome
	r.Path, outcome = l.Routes.Path.Apply(r.Path)
	a := &Answer{
		Request:   Request{Method: r.Method, Authority: r.Authority, Path: r.Path, Scheme: r.Scheme, Draw: q.Draw},
		View:      l.View.Name,
		view:      l.View,
		Listener:  Listener{Name: l.Name, Address: l.Address},
		Routes:    []Route{},
		Endpoints: []Endpoint{},
		Notes:     []string{},
		Kernel:    kernelOf(d),
	}
	a.addClient(s, q, client)
	if r.Path != parsed.path {
		a.Request.Sent = parsed.path
	}
	refusal := parsed.refused(l.Routes)
	if refusal != nil || outcome != rewrite.PathTaken {
		a.Action = pathAction(outcome, r.Path)
		if refusal != nil {
			a.refuse(refusal, &d)
		}
		if d.By != ByCompiler || refusal == nil { // which does not look at how a request is framed
			a.Disagreement = disagreement(scope, &d, nil, true)
		}
		a.addNotes(&d, nil, nil)
		return a, nil
	}
	trace := l.Routes.Trace(r)
	a.addRoutes(&trace, r)
	if trace.Route != nil {
		if err := a.addAction(s, l.View, trace.Route, r); err != nil {
			return nil, err
		}
		if refusal := parsed.refusedByRoute(trace.Route); refusal != nil {
			a.refuse(refusal, &d)
			a.Endpoints = []Endpoint{}
			return a, nil
		}
	}
	a.handTLS(&d)
	possible, orNone := l.Routes.Possible(r)
	a.addReasons(scope, s.Notes, d.Verdict)
	a.Disagreement = disagreement(scope, &d, possible, orNone)
	a.addNotes(&d, trace.Route, possible)
	return a, nil
}

// refuse says that the slow path refuses the request. The compiled tables do not know that the kernel leaves it to that.
func (a *Answer) refuse(r *refusal, d *Decision) {
	a.Action = r.action()
	if d.By == ByCompiler {
		a.Kernel = Kernel{By: d.By}
	}
}

// considered are the routes that a trace tells of.
func considered(trace *model.Trace) []*model.Route {
	if trace.VirtualHost == nil {
		return nil
	}
	n := len(trace.Lost)
	if trace.Route != nil {
		n++
	}
	return trace.VirtualHost.Routes[:n]
}

// mostJudged bounds the routes of one answer of which it is found out whether the kernel can decide them: each is compiled on
// its own, and a table may have thousands of expressions that take long.
const mostJudged = 100

func (a *Answer) addRoutes(trace *model.Trace, r *matcher.Request) {
	if trace.VirtualHost != nil {
		a.VirtualHost = &VirtualHost{Name: trace.VirtualHost.Name, Domain: trace.Domain}
	}
	judged := 0
	for i, route := range considered(trace) {
		row := Route{Position: i + 1, Name: route.Name, Match: route.Path.Text(), Conditions: route.Conditions()}
		if judged < mostJudged && routes.MayReach(route, r) {
			judged++
			row.Undecided = routes.KernelLimit(route, r)
		}
		if i < len(trace.Lost) {
			unmet := trace.Lost[i]
			row.Lost, row.Because = kinds[unmet.Kind], because(unmet, route, r)
		} else {
			a.Winner = row.Position
		}
		a.Routes = append(a.Routes, row)
	}
}

func (a *Answer) addAction(s *State, v model.View, route *model.Route, r *matcher.Request) error {
	scope := s.Config.In(v)
	a.Action = actionOf(scope, route, r)
	for _, c := range a.Action.Clusters {
		if c.Name == "" {
			continue
		}
		endpoints, err := s.Endpoints(scope.Key(c.Name))
		if err != nil {
			return fmt.Errorf("%s: %w", model.ClusterKey{View: v.Name, Name: c.Name}, err)
		}
		a.addEndpoints(scope.Cluster(c.Name), c.Subset, endpoints)
		a.addLeftOut(scope.Cluster(c.Name))
	}
	return nil
}

// addLeftOut notes which endpoints of a cluster get no requests.
func (a *Answer) addLeftOut(c *model.Cluster) {
	if c == nil || len(c.LeftOut) == 0 {
		return
	}
	a.leftOut = append(a.leftOut, fmt.Sprintf("%s: %s", c.Name, c.LeftOutText()))
}

// addEndpoints adds those of a cluster that are in a subset; nil has all.
func (a *Answer) addEndpoints(c *model.Cluster, of *Subset, endpoints []Endpoint) {
	if c == nil || of == nil {
		a.Endpoints = append(a.Endpoints, endpoints...)
		return
	}
	_, isIn := subsetOf(c, of.Criteria)
	for _, e := range endpoints {
		if !isIn(e.Address) {
			continue
		}
		if e.Criteria = of.Criteria; e.Criteria != "" {
			e.Share = 0
		}
		a.Endpoints = append(a.Endpoints, e)
	}
}

var kinds = map[model.UnmetKind]string{
	model.UnmetPath:     "path",
	model.UnmetFraction: "fraction",
	model.UnmetGRPC:     "grpc",
	model.UnmetHeader:   "header",
	model.UnmetQuery:    "query",
	model.UnmetCookie:   "cookie",
}

// because says what a route asks, and what the request has.
func because(u model.Unmet, route *model.Route, r *matcher.Request) string {
	switch u.Kind {
	case model.UnmetPath:
		return route.Path.Text()
	case model.UnmetFraction:
		return fmt.Sprintf("%s, and the draw is %d", route.Fraction.Text(), r.Draw%uint64(route.Fraction.Denominator))
	case model.UnmetGRPC:
		return "grpc, and " + seen("content-type", u.Seen(route, r))
	case model.UnmetHeader:
		h := &route.Headers[u.Index]
		return h.Text() + ", and " + seen(h.Name, u.Seen(route, r))
	case model.UnmetQuery:
		q := &route.Query[u.Index]
		return q.Text() + ", and " + seen(q.Name, u.Seen(route, r))
	default:
		c := &route.Cookies[u.Index]
		return c.Text() + ", and " + seen(c.Name, u.Seen(route, r))
	}
}

// seen says which values a request has.
func seen(name string, values []string) string {
	if len(values) == 0 {
		return "there is no " + name
	}
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = fmt.Sprintf("%q", v)
	}
	return name + " is " + strings.Join(quoted, " and ")
}

func kernelOf(d Decision) Kernel {
	if d.By == ByNobody {
		return Kernel{By: d.By}
	}
	k := Kernel{By: d.By, Verdict: maps.VerdictName(d.Verdict), Meaning: maps.HandoverMeaning(d.Verdict)}
	if d.Verdict == maps.VerdictOk {
		k.Fast, k.Cluster, k.Criteria, k.Timeout = true, d.Cluster, d.Criteria, d.Timeout.String()
	}
	return k
}

// handTLS says that a request is handed over after all where all endpoints that it may go to have TLS, or are listeners, and notes it where some
// are.
func (a *Answer) handTLS(d *Decision) {
	secured, inner, all := 0, 0, 0
	for _, e := range a.Endpoints {
		if e.Cluster != d.Cluster || e.Criteria != d.Criteria {
			continue
		}
		all++
		switch {
		case e.TLS:
			secured++
		case e.Inner:
			inner++
		}
	}
	what := "have TLS"
	if inner > 0 {
		what = "have TLS, or are the address of a listener"
	}
	v := maps.HandoverEndpointTLS
	switch {
	case !a.Kernel.Fast || secured+inner == 0:
	case secured+inner == all:
		a.Kernel = Kernel{By: d.By, Verdict: maps.VerdictName(v), Meaning: maps.HandoverMeaning(v), Cluster: d.Cluster, Criteria: d.Criteria}
	default:
		a.secured = fmt.Sprintf("%d of %s of %s %s: the kernel hands over what it chooses them for (%s)", secured+inner, plural.Of(all, "endpoint"), d.Cluster, what, maps.VerdictName(v))
	}
}

// addReasons says what the compiler knows of a hand-over: the first route that the kernel cannot decide, and where
// that does not tell, what was noted about the whole table.
func (a *Answer) addReasons(scope model.Scope, notes []note.Note, v maps.Verdict) {
	if v == maps.HandoverClusterSlow {
		a.addClusterReasons(scope, notes)
		return
	}
	if v != maps.HandoverRouteSlow && v != maps.HandoverTableSlow {
		return
	}
	isUndecided := func(r Route) bool { return r.Undecided != "" }
	if i := slices.IndexFunc(a.Routes, isUndecided); i >= 0 && v == maps.HandoverRouteSlow {
		a.Kernel.Reasons = []string{fmt.Sprintf("route %d: %s", a.Routes[i].Position, a.Routes[i].Undecided)}
		return
	}
	prefix := a.view.Listener(a.Listener.Name).String()
	for _, n := range notes {
		if n.Where == prefix || strings.HasPrefix(n.Where, prefix+":") {
			a.Kernel.Reasons = append(a.Kernel.Reasons, n.String())
		}
	}
}

func (a *Answer) addClusterReasons(scope model.Scope, notes []note.Note) {
	if a.Action == nil {
		return
	}
	for _, n := range notes {
		isOf := func(c Cluster) bool {
			m := scope.Cluster(c.Name)
			return m != nil && n.Where == m.Called()
		}
		if slices.ContainsFunc(a.Action.Clusters, isOf) {
			a.Kernel.Reasons = append(a.Kernel.Reasons, n.String())
		}
	}
}

// addNotes says what chance decides, and what the endpoints may change.
func (a *Answer) addNotes(d *Decision, winner *model.Route, possible []*model.Route) {
	if d.By == ByCompiler {
		a.Notes = append(a.Notes, "no daemon was asked: the compiled table decides, and how the request is framed is not looked at")
	}
	if len(possible) > 1 || len(possible) == 1 && !possible[0].Fraction.Always() {
		a.Notes = append(a.Notes, "a fraction of the requests takes part: another draw may take another route")
	}
	if winner != nil && len(sharesOf(winner)) > 1 {
		a.Notes = append(a.Notes, drawNote(winner))
	}
	a.Notes = append(a.Notes, a.leftOut...)
	if a.secured != "" {
		a.Notes = append(a.Notes, a.secured)
	}
	if note := a.shortage(d); note != "" {
		a.Notes = append(a.Notes, note)
	}
}

func drawNote(r *model.Route) string {
	if r.DrawByHash {
		return "the cluster is drawn by weight, with the request's hash, or without one for each request anew"
	}
	if r.DrawHeader != "" {
		return fmt.Sprintf("the cluster is drawn by weight, with the number in header %s, or without one for each request anew", r.DrawHeader)
	}
	return "the cluster is drawn by weight, for each request anew"
}

// shortage says that a request which the kernel takes finds no endpoint, or no i-sock, now.
func (a *Answer) shortage(d *Decision) string {
	if d.By != ByKernel || d.Verdict != maps.VerdictOk {
		return ""
	}
	var inService, idle uint64
	secured := false
	for _, e := range a.Endpoints {
		if e.Cluster == d.Cluster && e.Criteria == d.Criteria && e.State != Down && (e.Share > 0 || e.Criteria != "") {
			inService++
			idle += *e.Idle
			secured = secured || e.TLS || e.Inner // it has no i-socks, and needs none
		}
	}
	switch {
	case secured:
	case inService == 0:
		return fmt.Sprintf("no endpoint of %s is in service now: the kernel hands over (%s)", d.Cluster, maps.VerdictName(maps.HandoverNoEndpoint))
	case idle == 0:
		return fmt.Sprintf("no i-sock of %s is idle now: the kernel hands over (%s)", d.Cluster, maps.VerdictName(maps.HandoverPoolEmpty))
	}
	return ""
}
