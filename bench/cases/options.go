// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/websocket"
)

// What --output may be.
const (
	outputText = "text"
	OutputJSON = "json"
)

// maxBody bounds --body: beyond it the run measures memory copies.
const maxBody = 1 << 20

// Options of a run, as the flags give them.
type Options struct {
	Topology string `json:"topology"`
	Case     string `json:"case"`
	// Connections are counts of open connections, one measurement each.
	Connections []int `json:"connections"`
	// Generators of the keepalive case, each in its turn.
	Generators []string `json:"load"`
	// ShortConnections is the same for the short case.
	ShortConnections []int `json:"short_connections"`
	// WebSocketConnections is the same for the websocket case, each with
	// messages of each size in bytes.
	WebSocketConnections []int `json:"websocket_connections"`
	Messages             []int `json:"message_bytes"`
	// RouteKinds are the ways in which routes tell requests apart, each in tables of Routes routes, with RouteConnections
	// open connections.
	RouteKinds       []string `json:"route_kinds"`
	Routes           []int    `json:"routes"`
	RouteConnections int      `json:"route_connections"`
	// LeastRate is how many requests a second the clients of the least case send in all.
	LeastRate int `json:"least_rate"`
	// Scale has the options of the cases that vary one thing.
	Scale scaleOptions `json:"scale"`
	// AppUsers are numbers of users at the same time, one measurement each, of an application.
	AppUsers []int    `json:"app_users"`
	Rounds   int      `json:"rounds"`
	Peers    []string `json:"peers"`
	// Body is the size of a response body in bytes.
	Body int `json:"body_bytes"`
	// Duration of a measurement and Warmup before it, in whole seconds: wrk
	// takes no fractions.
	Duration time.Duration `json:"duration_ns"`
	Warmup   time.Duration `json:"warmup_ns"`

	XLB    string `json:"-"`
	Out    string `json:"-"`
	Output string `json:"-"`
	Check  bool   `json:"-"`
}

// AddFlags adds the flags of all cases, with their defaults.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Topology, "topology", All, "where the endpoints are: same (host), cross (host) or all")
	flags.StringVar(&o.Case, "case", All, "what is measured: keepalive, short (one connection per request), setup (connections without requests), routes (tables of many), websocket (messages), least (one endpoint is slow), "+strings.Join(scaleCases, ", ")+", all, or an application of examples/: bookstore, bank")
	flags.IntSliceVar(&o.Connections, "connections", []int{1, 8, 32, 128}, "numbers of kept-alive connections")
	flags.StringSliceVar(&o.Generators, "load", []string{Wrk}, "generators of the case keepalive: wrk, fortio")
	flags.IntSliceVar(&o.ShortConnections, "short-connections", []int{1, 32}, "numbers of clients that connect again and again, in the cases short and setup")
	flags.StringSliceVar(&o.RouteKinds, "route-kinds", routeKinds, "kinds of routes; also "+strings.Join(longKinds, ", ")+": long paths against expressions")
	flags.IntSliceVar(&o.Routes, "routes", []int{1, 10, 100, 1000, 10000}, "numbers of routes in a table")
	flags.IntVar(&o.RouteConnections, "route-connections", 8, "number of kept-alive connections that ask for routes")
	flags.IntSliceVar(&o.WebSocketConnections, "websocket-connections", []int{1, 100}, "numbers of WebSocket connections")
	flags.IntSliceVar(&o.Messages, "messages", []int{16, 1024}, "sizes of WebSocket messages in bytes")
	flags.IntVar(&o.LeastRate, "least-rate", LeastRate, "requests a second in all to endpoints of which one is slow")
	o.Scale.addFlags(flags)
	flags.IntSliceVar(&o.AppUsers, "app-users", []int{8}, "numbers of users of an application")
	flags.IntVar(&o.Rounds, "rounds", 5, "turns of each peer under each load")
	flags.DurationVar(&o.Duration, "duration", 3*time.Second, "length of a measurement, whole seconds")
	flags.DurationVar(&o.Warmup, "warmup", time.Second, "load before each measurement, whole seconds or 0")
	flags.StringSliceVar(&o.Peers, "peers", []string{All}, "peers to compare; \"all\" leaves out those not installed")
	flags.IntVar(&o.Body, "body", 0, "size of response bodies in bytes")
	flags.StringVar(&o.XLB, "xlb", "bin/xlb", "path of the xlb binary")
	flags.StringVar(&o.Out, "out", "bench/results/tmp", "directory for results.json, results.md and plots")
	flags.StringVar(&o.Output, "output", outputText, "format of standard output: text or json")
	flags.BoolVar(&o.Check, "check", false, "exit with code 1 when a target of the project is missed")
}

// Validate returns every problem of the options, each with the flag's name; peers are the names of those there are.
func (o Options) Validate(peers []string) error {
	var errs []error
	oneOf := func(flag, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			errs = append(errs, fmt.Errorf("--%s is %q: use one of %s", flag, value, strings.Join(allowed, ", ")))
		}
	}
	oneOf("topology", o.Topology, string(lab.SameHost), string(lab.CrossHost), All)
	oneOf("case", o.Case, append([]string{Keepalive, Short, Setup, Routes, WebSocket, Least, Bookstore, Bank, All}, scaleCases...)...)
	oneOf("output", o.Output, outputText, OutputJSON)
	for _, name := range o.Peers {
		oneOf("peers", name, append([]string{All}, peers...)...)
	}
	for _, name := range o.Generators {
		oneOf("load", name, Wrk, Fortio)
	}
	for _, kind := range o.RouteKinds {
		oneOf("route-kinds", kind, slices.Concat(routeKinds, longKinds)...)
	}
	errs = append(errs,
		positive("connections", o.Connections...),
		positive("short-connections", o.ShortConnections...),
		positive("websocket-connections", o.WebSocketConnections...),
		messageSizes(o.Messages),
		positive("routes", o.Routes...),
		positive("route-connections", o.RouteConnections),
		positive("least-rate", o.LeastRate),
		o.Scale.validate(),
		o.validateApps(),
		positive("rounds", o.Rounds),
		wholeSeconds("duration", o.Duration, 1),
		wholeSeconds("warmup", o.Warmup, 0))
	if o.Body < 0 || o.Body > maxBody {
		errs = append(errs, fmt.Errorf("--body is %d: use 0 to %d bytes", o.Body, maxBody))
	}
	return errors.Join(errs...)
}

func positive(flag string, values ...int) error {
	if len(values) == 0 || slices.Min(values) < 1 {
		return fmt.Errorf("--%s is %v: every number must be at least 1", flag, values)
	}
	return nil
}

func messageSizes(sizes []int) error {
	if len(sizes) == 0 || slices.Min(sizes) < 1 || slices.Max(sizes) > websocket.MaxMessage {
		return fmt.Errorf("--messages is %v: use 1 to %d bytes", sizes, websocket.MaxMessage)
	}
	return nil
}

func wholeSeconds(flag string, d time.Duration, least int) error {
	if d < time.Duration(least)*time.Second || d%time.Second != 0 {
		return fmt.Errorf("--%s is %s: use whole seconds, at least %d", flag, d, least)
	}
	return nil
}

// Topologies are those that were asked for, in the order in which they are measured.
func (o Options) Topologies() []lab.Topology {
	if (Load{Case: o.Case}).IsApp() {
		return []lab.Topology{lab.SameHost}
	}
	if o.Topology == All {
		return []lab.Topology{lab.SameHost, lab.CrossHost}
	}
	return []lab.Topology{lab.Topology(o.Topology)}
}

// Loads lists what is measured in every topology, in order.
func (o Options) Loads() []Load {
	var loads []Load
	if o.asksFor(Keepalive) {
		for _, generator := range o.Generators {
			for _, n := range o.Connections {
				loads = append(loads, KeptAlive(n).from(generator))
			}
		}
	}
	if o.asksFor(Short) {
		for _, n := range o.ShortConnections {
			loads = append(loads, ShortLived(n))
		}
	}
	if o.asksFor(Setup) {
		for _, n := range o.ShortConnections {
			loads = append(loads, Load{Case: Setup, Connections: n})
		}
	}
	if o.asksFor(Routes) {
		for _, kind := range o.RouteKinds {
			for _, n := range o.Routes {
				loads = append(loads, ThroughRoutes(o.RouteConnections, kind, n))
			}
		}
	}
	if o.asksFor(WebSocket) {
		for _, message := range o.Messages {
			for _, n := range o.WebSocketConnections {
				loads = append(loads, WithMessages(n, message))
			}
		}
	}
	if o.asksFor(Least) {
		for _, choice := range Choices {
			loads = append(loads, LeastLoaded(choice, o.LeastRate))
		}
	}
	return slices.Concat(loads, o.scaleLoads(), o.appLoads())
}

func (o Options) asksFor(name string) bool { return o.Case == All || o.Case == name }

// path is the request target that answers with the body's size.
func (o Options) path() string {
	if o.Body == 0 {
		return "/"
	}
	return fmt.Sprintf("/%d", o.Body)
}
