// SPDX-License-Identifier: Apache-2.0

package cases

// Cases of load.
const (
	// Keepalive keeps every connection for the whole run (wrk).
	Keepalive = "keepalive"
	// Short makes a connection per request (package load).
	Short = "short"
	// Setup makes connections and no requests.
	Setup = "setup"
	// Routes keeps its connections, too, and has its requests find their way through tables of many routes.
	Routes = "routes"
	// WebSocket sends messages on connections that stay open (package websocket).
	WebSocket = "websocket"
	// Least asks endpoints that take their time, of which one is slow, at a given rate (package queue).
	Least = "least"
)

// Cases that vary one thing and show what grows with it.
const (
	// Connections varies the number of kept-alive connections.
	Connections = "connections"
	// Sizes varies the size of bodies.
	Sizes = "sizes"
	// Rate varies how many requests a second are sent, whatever the answers take.
	Rate = "rate"
	// Chain varies how many services ask each other for an answer.
	Chain = "chain"
	// Density varies how many services one host has.
	Density = "density"
	// Interference varies how many connections of a neighbour's clients are at work.
	Interference = "interference"
	// Rules varies how many services are configured that nobody asks.
	Rules = "rules"
	// Changes varies how many times a second a control plane changes endpoints.
	Changes = "changes"
)

// scaleCases in the order in which they run.
var scaleCases = []string{Connections, Sizes, Rate, Chain, Density, Interference, Rules, Changes}

// Cases that are applications: folders of examples/. They are measured when they are asked for by name.
const (
	Bookstore = "bookstore"
	Bank      = "bank"
)

// Apps are the cases that are applications.
var Apps = []string{Bookstore, Bank}

// All stands for all cases, all topologies or all peers, but not for applications.
const All = "all"

// Generators of the kept-alive load.
const (
	Wrk    = "wrk"
	Fortio = "fortio"
)

// How LEAST_REQUEST chooses in the least case.
const (
	OfTwo = "two"
	OfAll = "all"
)

// Choices are both.
var Choices = []string{OfTwo, OfAll}

// Which messages have the body, in the sizes case.
const (
	WayResponse = "response"
	WayRequest  = "request"
)

// What is opened in the rules case: a connection for each request, or connections for all.
const (
	WayShort = "short"
	WayKept  = "kept"
)
