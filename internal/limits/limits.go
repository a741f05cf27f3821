// SPDX-License-Identifier: Apache-2.0

package limits

import "time"

// Side is whether a row's socket is connected to, or connects.
type Side string

// Sides of a row.
const (
	Server Side = "server"
	Client Side = "client"
)

// Row bounds one server or client. A zero bound is one that it has no use for, or that Varies replaces.
type Row struct {
	Name string
	Side Side
	// Connect bounds the set-up of a connection, with TLS and HTTP/2.
	Connect time.Duration
	// Head is how long the head of a request may take, Whole a whole request, or with a client a whole exchange, and Send the writing of an answer.
	Head, Whole, Send time.Duration
	// Idle is how long nothing has to move, or nothing be acknowledged.
	Idle time.Duration
	// Connections and Streams, or single requests of a kind, are at most so many at once.
	Connections, Streams int
	// HeadBytes and HeadFields bound a head, BodyBytes what is taken of a body or a message. All but HeadFields are bytes.
	HeadBytes, HeadFields, BodyBytes int
	// Varies names the fields of the configuration that replace bounds.
	Varies string
	// Made are the functions that open its sockets, as package.function below the root.
	Made []string
	// Shown are tests of other packages that attack it, where a kernel or the whole binary is needed.
	Shown []string
	// Trusted says why there is nobody to attack it; empty: there is.
	Trusted string
}

// A client's connection of which the last answer has been sent is read on for so long, and so many bytes, before it closes: bytes that nobody
// reads are answered with a reset, which may cost the client its answer (Envoy: delayed_close_timeout).
const (
	LingerTime  = time.Second
	LingerBytes = 1 << 20
)

// The rows. They are set before anything is served, and not changed afterwards.
var (
	// Admin is the admin API, the metrics and the client status with it.
	Admin = Row{
		Name: "admin API", Side: Server, Head: 10 * time.Second, Whole: 10 * time.Second, Send: 30 * time.Second, Idle: time.Minute,
		Connections: 256, Streams: 16, HeadBytes: 16 << 10, BodyBytes: 64 << 10,
		Made:  []string{"internal/admin.Listen", "internal/admin.bindUnix", "internal/admin.tryUnix", "internal/admin.Serve"},
		Shown: []string{"TestSlowHeadsKeepNobodyOut", "TestStreamsOfAConnectionAreBounded", "TestSlowReadersOfPagesKeepNobodyOut", "TestSlowReadersAreLeftAlone", "TestBusyConnectionsLeaveRoomForOthers"},
	}
	// ClientStatus are the streams of the client status service, behind Admin. Its requests are short.
	ClientStatus = Row{
		Name: "client status service", Side: Server, Send: 30 * time.Second, Idle: time.Minute, Streams: 8, BodyBytes: 64 << 10,
		Made:  []string{"internal/xds/csds.newHandler"},
		Shown: []string{"TestSilentStreamsEnd", "TestStreamsAreBounded", "TestLongQuestionsAreRefused"},
	}
	// ControlPlane is the stream of discovery, and the connection of all of gRPC. Silence on a stream is lawful: a server says what has changed.
	ControlPlane = Row{
		Name: "control plane", Side: Client, Connect: 10 * time.Second, Idle: time.Minute, HeadBytes: 64 << 10, BodyBytes: 64 << 20,
		Varies: "connection_keepalive",
		Made:   []string{"internal/xds.dial", "internal/xds.dialTCP"},
		Shown:  []string{"TestConnectionsFindAServerThatIsGone", "TestTooLargeResponse"},
	}
	// Secrets are the streams of secrets, over connections as the control plane's. A chain of certificates has a few thousand bytes.
	Secrets = Row{Name: "servers of secrets", Side: Client, BodyBytes: 4 << 20, Shown: []string{"TestServersOfSecretsThatFail"}}
	// HealthHTTP and HealthTCP are health checks.
	HealthHTTP = Row{
		Name: "health checks, HTTP", Side: Client, HeadBytes: 60 << 10, BodyBytes: 1 << 20, Varies: "HealthCheck.timeout",
		Made: []string{"internal/health.NewProbe", "internal/dialer.dialForCheck"},
	}
	HealthTCP = Row{Name: "health checks, TCP", Side: Client, BodyBytes: 64 << 10, Varies: "HealthCheck.timeout"}
	// DNS is one look-up. A message has at most 65,535 bytes (RFC 1035 section 4.2.2).
	DNS = Row{Name: "DNS", Side: Client, Whole: 10 * time.Second, Made: []string{"internal/dns.ask"}}
	// Downstream are clients' connections on the slow path. A body is passed on and not kept.
	Downstream = Row{
		Name: "slow path, clients", Side: Server, Head: 5 * time.Minute, Idle: 5 * time.Minute, HeadBytes: 60 << 10, HeadFields: 100,
		Varies: "request_headers_timeout, stream_idle_timeout, max_request_headers_kb, max_headers_count, max_connections of overload managers and listeners",
		Made:   []string{"internal/anchor.Listen", "internal/anchor.start"},
	}
	// Opening is what a listener with filter chains reads before it has chosen one; Envoy's inspectors have the same bound.
	Opening = Row{
		Name: "first bytes of a connection", Side: Server, BodyBytes: 64 << 10, Varies: "listener_filters_timeout",
		Made: []string{"internal/slowpath/opening.tlsOpening"}, Shown: []string{"TestOpeningInPiecesIsNotReadFromItsBeginning", "TestInspectionEndsInTime"},
	}
	// Upstream are the slow path's connections to endpoints, and the handshakes of all that are secured.
	Upstream = Row{
		Name: "slow path, endpoints", Side: Client,
		Varies: "connect_timeout, timeout of routes, stream_idle_timeout; heads as those of clients",
		Made:   []string{"internal/slowpath/conns.Dial", "internal/dialer.Dial", "internal/dialer.connect", "internal/anchor.DialInner", "internal/mtls.handshake"},
		Shown:  []string{"TestEndpointsThatStallInTheHandshake"},
	}
	// Pool are the fast path's connections to endpoints, opened ahead.
	Pool = Row{
		Name: "pool", Side: Client, Varies: "connect_timeout",
		Made: []string{"internal/pool.dial", "internal/pool.sourceAddress"}, Shown: []string{"TestPoolIsReadyWhenEveryEndpointWasTried"},
	}
	// AdminClient is "xlb get" and its like.
	AdminClient = Row{
		Name: "xlb get", Side: Client, Whole: 10 * time.Second, HeadBytes: 16 << 10, BodyBytes: 64 << 20,
		Made: []string{"cmd/xlb.adminClient"}, Shown: []string{"TestAskingAnAdminAddressIsBounded"},
	}
	// Takeover hands a bound socket to a daemon that replaces this one.
	Takeover = Row{
		Name: "takeover of a socket", Side: Server, Whole: time.Second,
		Made: []string{"internal/anchor.knock", "internal/anchor.listenAt"}, Trusted: "a daemon of the same user, by SO_PEERCRED",
	}
	// NRI is the connection to a container runtime. Connect also bounds until the runtime has registered the plugin, Whole how long it is kept waiting for
	// an answer.
	NRI = Row{
		Name: "container runtime", Side: Client, Connect: 5 * time.Second, Whole: 500 * time.Millisecond,
		Made: []string{"internal/nri.dial"}, Shown: []string{"TestSilentRuntimeIsGivenUp", "TestGarbageEndsTheConnection"},
		Trusted: "the runtime runs as root, and so do all who can take the place of its socket",
	}
	// Delegate is the admin API of the Envoy beside the daemon.
	Delegate = Row{
		Name: "admin API of the delegate", Side: Client, Whole: time.Second, HeadBytes: 16 << 10, BodyBytes: 64 << 10,
		Made: []string{"internal/delegate.dial", "internal/delegate.newAdminClient"}, Shown: []string{"TestAnswersOfADelegateAreBounded", "TestTheDaemonAsksNoSocketOfAnother"},
	}
	// HeelsProbe is "xlb heels probe".
	HeelsProbe = Row{
		Name: "xlb heels probe", Side: Client, Connect: 3 * time.Second,
		Made: []string{"internal/heels.Probe"}, Trusted: "an operator's own VIP, of which nothing is read",
	}
	// Demo is "xlb demo", which starts its own servers.
	Demo = Row{
		Name: "xlb demo", Side: Client, Whole: 10 * time.Second,
		Made: []string{"cmd/xlb.count", "cmd/xlb.newTiming", "cmd/xlb.freeAddress", "cmd/xlb.accepts"}, Trusted: "both ends are the command's own",
	}
	// KernelProbe tries out on loopback what the kernel can do.
	KernelProbe = Row{
		Name: "probe of the kernel", Side: Client,
		Made: []string{"internal/datapath.connection"}, Trusted: "both ends are the daemon's own",
	}
)

// All returns the rows, in the order of docs/reference/threats.md.
func All() []*Row {
	return []*Row{
		&Downstream, &Opening, &Upstream, &Pool, &HealthHTTP, &HealthTCP, &ControlPlane, &Secrets, &DNS, &Admin, &ClientStatus, &AdminClient,
		&Takeover, &NRI, &Delegate, &HeelsProbe, &Demo, &KernelProbe,
	}
}
