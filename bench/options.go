// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/websocket"
)

// Cases of load.
const (
	// caseKeepalive keeps every connection for the whole run (wrk).
	caseKeepalive = "keepalive"
	// caseShort makes a connection per request (package load).
	caseShort = "short"
	// caseSetup makes connections and no requests.
	caseSetup = "setup"
	// caseRoutes keeps its connections, too, and has its requests find their way through tables of many routes.
	caseRoutes = "routes"
	// caseWebSocket sends messages on connections that stay open (package websocket).
	caseWebSocket = "websocket"
	// caseLeast asks endpoints that take their time, of which one is slow, at a given rate (package queue).
	caseLeast = "least"
)

const all = "all"

const (
	outputText = "text"
	outputJSON = "json"
)

// maxBody bounds --body: beyond it the run measures memory copies.
const maxBody = 1 << 20

// options of a run, as the flags give them.
type options struct {
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

// validate returns every problem of the options, each with the flag's name.
func (o options) validate() error {
	var errs []error
	oneOf := func(flag, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			errs = append(errs, fmt.Errorf("--%s is %q: use one of %s", flag, value, strings.Join(allowed, ", ")))
		}
	}
	oneOf("topology", o.Topology, string(lab.SameHost), string(lab.CrossHost), all)
	oneOf("case", o.Case, append([]string{caseKeepalive, caseShort, caseSetup, caseRoutes, caseWebSocket, caseLeast, caseBookstore, caseBank, all}, scaleCases...)...)
	oneOf("output", o.Output, outputText, outputJSON)
	for _, name := range o.Peers {
		oneOf("peers", name, append([]string{all}, peerNames()...)...)
	}
	for _, name := range o.Generators {
		oneOf("load", name, generatorWrk, generatorFortio)
	}
	for _, kind := range o.RouteKinds {
		oneOf("route-kinds", kind, routeKinds...)
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

func (o options) topologies() []lab.Topology {
	if (load{Case: o.Case}).isApp() {
		return []lab.Topology{lab.SameHost}
	}
	if o.Topology == all {
		return []lab.Topology{lab.SameHost, lab.CrossHost}
	}
	return []lab.Topology{lab.Topology(o.Topology)}
}

// load is one kind of load at one number of connections.
type load struct {
	Case        string `json:"case"`
	Connections int    `json:"connections"`
	// Message is the size of a message in bytes; WebSocket only.
	Message int `json:"message_bytes,omitempty"`
	// RouteKind and Routes are of the routes case only.
	RouteKind string `json:"route_kind,omitempty"`
	Routes    int    `json:"routes,omitempty"`
	// Choice and Rate, in requests a second, are of the least case only.
	Choice string `json:"choice,omitempty"`
	Rate   int    `json:"rate,omitempty"`
	// Generator of the keepalive case; empty stands for wrk.
	Generator string `json:"generator,omitempty"`
	Scaled
}

func keepalive(connections int) load { return load{Case: caseKeepalive, Connections: connections} }

// from is the same load of another generator.
func (l load) from(generator string) load {
	if generator != generatorWrk {
		l.Generator = generator
	}
	return l
}

func short(connections int) load { return load{Case: caseShort, Connections: connections} }

func webSocket(connections, message int) load {
	return load{Case: caseWebSocket, Connections: connections, Message: message}
}

func throughRoutes(connections int, kind string, n int) load {
	return load{Case: caseRoutes, Connections: connections, RouteKind: kind, Routes: n}
}

func leastLoaded(choice string, rate int) load {
	return load{Case: caseLeast, Connections: leastClients * leastClientConnections, Choice: choice, Rate: rate}
}

func (l load) String() string {
	if l.isScaled() {
		return l.scaledString()
	}
	switch l.Case {
	case caseBookstore, caseBank:
		return fmt.Sprintf("%s, %d users", l.Case, l.Connections)
	case caseLeast:
		return fmt.Sprintf("%s of %s, %d requests/s from %d processes", l.Case, l.Choice, l.Rate, leastClients)
	case caseWebSocket:
		return fmt.Sprintf("%s, messages of %d bytes, %d connections", l.Case, l.Message, l.Connections)
	case caseRoutes:
		return fmt.Sprintf("%s, %s, %d in the table, %d connections", l.Case, l.RouteKind, l.Routes, l.Connections)
	}
	if l.Generator != "" {
		return fmt.Sprintf("%s by %s, %d connections", l.Case, l.Generator, l.Connections)
	}
	return fmt.Sprintf("%s, %d connections", l.Case, l.Connections)
}

// loads lists what is measured in every topology, in order.
func (o options) loads() []load {
	var loads []load
	if o.asksFor(caseKeepalive) {
		for _, generator := range o.Generators {
			for _, n := range o.Connections {
				loads = append(loads, keepalive(n).from(generator))
			}
		}
	}
	if o.asksFor(caseShort) {
		for _, n := range o.ShortConnections {
			loads = append(loads, short(n))
		}
	}
	if o.asksFor(caseSetup) {
		for _, n := range o.ShortConnections {
			loads = append(loads, load{Case: caseSetup, Connections: n})
		}
	}
	if o.asksFor(caseRoutes) {
		for _, kind := range o.RouteKinds {
			for _, n := range o.Routes {
				loads = append(loads, throughRoutes(o.RouteConnections, kind, n))
			}
		}
	}
	if o.asksFor(caseWebSocket) {
		for _, message := range o.Messages {
			for _, n := range o.WebSocketConnections {
				loads = append(loads, webSocket(n, message))
			}
		}
	}
	if o.asksFor(caseLeast) {
		for _, choice := range choices {
			loads = append(loads, leastLoaded(choice, o.LeastRate))
		}
	}
	return slices.Concat(loads, o.scaleLoads(), o.appLoads())
}

func (o options) asksFor(name string) bool { return o.Case == all || o.Case == name }

// path is the request target that answers with the body's size.
func (o options) path() string {
	if o.Body == 0 {
		return "/"
	}
	return fmt.Sprintf("/%d", o.Body)
}
