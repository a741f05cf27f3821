// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// Framings of a body (RFC 9112 section 6).
const (
	framingNone    = "none"
	framingLength  = "length"
	framingChunked = "chunked"
	framingClose   = "close"
)

// Faults of a client.
const (
	clientResetsInRequest   = "resets in the request"
	clientResetsInResponse  = "resets in the response"
	clientStalls            = "stalls in the request"
	clientHalfCloses        = "half-closes behind the request"
	clientHalfClosesEarly   = "half-closes in the request"
	clientPauses            = "stops reading for a while"
	clientAbandonsRequest   = "closes in the request"
	clientAbandonsResponse  = "closes in the response"
	clientAbandonsUnstarted = "closes without reading"
)

// Faults of a server.
const (
	serverResetsAtOnce      = "resets without an answer"
	serverResetsInResponse  = "resets in the response"
	serverClosesAtOnce      = "closes without an answer"
	serverClosesInResponse  = "closes in the response"
	serverStalls            = "stalls in the response"
	serverStallsForEver     = "never goes on"
	serverAnswersEarly      = "answers before the body is read"
	serverAnswersAndCloses  = "answers before the body is read, and closes"
	serverAnnouncesClose    = "answers with Connection: close"
	serverClosesSilently    = "closes behind the response"
	serverSendsMore         = "sends bytes behind the response"
	serverSendsWhenIdle     = "sends bytes on the idle connection"
	serverInformsBeforehand = "sends 103 first"
)

// Routes, by the first element of the path.
const (
	RouteSame  = "same"
	RouteCross = "cross"
	RouteBoth  = "both"
	// RouteTimed has a timeout: what never goes on is sent there.
	RouteTimed = "timed"
)

// Plan is all there is to know about a request and its response.
type Plan struct {
	ID     ID
	Route  string
	Method string
	// Paired tells that the next request is sent together with this one.
	Paired  bool `json:",omitempty"`
	Expect  bool `json:",omitempty"`
	Upgrade bool `json:",omitempty"`
	// RequestSize is the body's; of an upgrade, how much is sent through the tunnel.
	RequestSize    int
	RequestFraming string
	// RequestPadding is the length of a header's value.
	RequestPadding int
	// RequestPieces and ResponsePieces split into writes of random sizes.
	RequestPieces bool `json:",omitempty"`
	// HeadFirst sends the head in a write of its own; of a pair, the first request.
	HeadFirst bool `json:",omitempty"`

	Status          int
	ResponseSize    int
	ResponseFraming string
	ResponsePadding int
	ResponsePieces  bool `json:",omitempty"`

	// Client and Server are their faults, "" for none; At tells where, in thousandths of what is sent or received.
	Client      string        `json:",omitempty"`
	ClientAt    int           `json:",omitempty"`
	ClientPause time.Duration `json:",omitempty"`
	Server      string        `json:",omitempty"`
	ServerAt    int           `json:",omitempty"`
	ServerPause time.Duration `json:",omitempty"`
}

// requestsOn is the number of requests that a connection makes if nothing ends it.
func requestsOn(seed uint64, process, conn uint32) uint32 {
	random := rand.New(rand.NewPCG(ID{process, conn, 0}.key(seed, 'n'), 0))
	if random.IntN(6) == 0 {
		return 1
	}
	return 1 + random.Uint32N(maxRequests-1)
}

// NewPlan returns the plan of a request.
func NewPlan(seed uint64, id ID) Plan {
	d := draw{rand.New(rand.NewPCG(id.key(seed, 'P'), seed))}
	p := Plan{ID: id, Route: d.route(), RequestFraming: framingNone}
	first, second := pairedWith(seed, id)
	d.request(&p, first || second)
	d.response(&p)
	p.Paired = first
	if id.Process < FirstCalmProcess {
		d.faults(&p, first || second)
	}
	p.settle()
	return p
}

// pairedWith tells whether a request is sent with the next, or with the one
// before. Pairs begin at even numbers, so a request looks back one step at most.
func pairedWith(seed uint64, id ID) (first, second bool) {
	even := id
	even.Request &^= 1
	if even.key(seed, '2')%16 != 0 {
		return false, false
	}
	return id == even, id != even
}

// draw makes random choices.
type draw struct{ *rand.Rand }

func (d draw) oneIn(n int) bool { return d.IntN(n) == 0 }

func (d draw) route() string {
	return []string{RouteSame, RouteSame, RouteCross, RouteBoth}[d.IntN(4)]
}

// size of a body: most are small, a few in a thousand have megabytes, and take as long as all the others.
func (d draw) size() int {
	switch n := d.IntN(1000); {
	case n < 100:
		return 0
	case n < 760:
		return d.IntN(2 << 10)
	case n < 940:
		return d.IntN(32 << 10)
	case n < 985:
		return d.IntN(300 << 10)
	case n < 996:
		return d.IntN(1200 << 10)
	default:
		return d.IntN(4 << 20)
	}
}

// padding of a head: most are short, some longer than the fast path reads.
func (d draw) padding() int {
	switch n := d.IntN(50); {
	case n < 44:
		return d.IntN(200)
	case n < 49:
		return d.IntN(5 << 10)
	default:
		return d.IntN(12 << 10)
	}
}

// pause is short for most, so that stalls do not take the load away, and up to two seconds for some.
func (d draw) pause() time.Duration {
	return time.Duration(1+d.IntN(1<<(1+d.IntN(11)))) * time.Millisecond
}

func (d draw) request(p *Plan, inPair bool) {
	p.Method = http.MethodGet
	switch n := d.IntN(100); {
	case n < 35:
		p.Method = http.MethodPost
		p.RequestSize, p.RequestFraming = d.size(), framingLength
		if d.oneIn(3) {
			p.RequestFraming = framingChunked
		}
		p.Expect = !inPair && d.oneIn(10)
	case n < 38:
		p.Method = http.MethodHead
	case n < 40 && !inPair:
		p.Upgrade = true
		p.RequestSize = d.size()
	}
	if inPair {
		// Both are sent before either answer is read: they have to fit into what a sender may have on its way.
		p.RequestSize %= 4 << 10
	}
	p.RequestPadding = d.padding()
	p.RequestPieces = d.oneIn(20)
	p.HeadFirst = d.oneIn(4)
	if inPair {
		p.HeadFirst = d.oneIn(2)
	}
}

func (d draw) response(p *Plan) {
	p.Status = http.StatusOK
	if d.oneIn(10) {
		p.Status = []int{http.StatusCreated, http.StatusNoContent, http.StatusNotModified, http.StatusNotFound, http.StatusInternalServerError}[d.IntN(5)]
	}
	p.ResponseSize, p.ResponseFraming = d.size(), framingLength
	switch n := d.IntN(20); {
	case n < 5:
		p.ResponseFraming = framingChunked
	case n < 6:
		p.ResponseFraming = framingClose
	}
	p.ResponsePadding = d.padding()
	p.ResponsePieces = d.oneIn(20)
}

func (d draw) faults(p *Plan, inPair bool) {
	if d.oneIn(10) && !inPair {
		p.Client = d.clientFault()
		p.ClientAt, p.ClientPause = d.IntN(1000), d.pause()
		if p.Client == clientPauses && d.oneIn(2) {
			// More than the fast path lets lie unread.
			p.ResponseSize += 2 << 20
		}
	}
	if d.oneIn(10) {
		p.Server = d.serverFault()
		p.ServerAt, p.ServerPause = d.IntN(1000), d.pause()
	}
}

func (d draw) clientFault() string {
	all := []string{
		clientResetsInRequest, clientResetsInResponse, clientStalls, clientHalfCloses, clientHalfClosesEarly, clientPauses,
		clientAbandonsRequest, clientAbandonsResponse, clientAbandonsUnstarted,
	}
	return all[d.IntN(len(all))]
}

func (d draw) serverFault() string {
	all := []string{
		serverResetsAtOnce, serverResetsInResponse, serverClosesAtOnce, serverClosesInResponse, serverStalls, serverStallsForEver,
		serverAnswersEarly, serverAnswersAndCloses, serverAnnouncesClose, serverClosesSilently, serverSendsMore, serverSendsWhenIdle,
		serverInformsBeforehand,
	}
	return all[d.IntN(len(all))]
}

// settle removes what contradicts itself.
func (p *Plan) settle() {
	switch {
	case p.Status == http.StatusNoContent || p.Status == http.StatusNotModified:
		p.ResponseSize, p.ResponseFraming = 0, framingNone
	case p.Method == http.MethodHead && p.ResponseFraming == framingClose:
		p.ResponseFraming = framingLength
	}
	if p.Upgrade {
		p.settleUpgrade()
	}
	if p.ResponseFraming == framingClose {
		p.settleUnframed()
	}
	if p.Server == serverStallsForEver {
		p.Route = RouteTimed
	}
}

// settleUnframed changes what nobody could tell from a body that only the
// connection ends.
func (p *Plan) settleUnframed() {
	switch p.Server {
	case serverClosesInResponse:
		p.Server = serverResetsInResponse
	case serverSendsMore, serverSendsWhenIdle:
		p.ResponseFraming = framingChunked
	}
}

// settleUpgrade keeps the faults that a tunnel can have.
func (p *Plan) settleUpgrade() {
	p.Status, p.ResponseSize, p.ResponseFraming = http.StatusSwitchingProtocols, 0, framingNone
	switch p.Client {
	case clientResetsInResponse, clientAbandonsResponse, clientPauses:
	default:
		p.Client = ""
	}
	switch p.Server {
	case serverResetsAtOnce, serverResetsInResponse, serverStalls:
	default:
		p.Server = ""
	}
}

// calm tells that nothing in the plan keeps the request from being answered.
func (p *Plan) calm() bool { return p.Client == "" && p.Server == "" }

// halfCloses tells that the client can send nothing behind the request.
func (p *Plan) halfCloses() bool {
	return p.Client == clientHalfCloses || p.Client == clientHalfClosesEarly
}

// clientLeaves tells that the client does not wait for the whole response.
func (p *Plan) clientLeaves() bool {
	switch p.Client {
	case clientResetsInRequest, clientResetsInResponse, clientHalfClosesEarly, clientAbandonsRequest, clientAbandonsResponse, clientAbandonsUnstarted:
		return true
	}
	return false
}

// part is a share of a size, in thousandths.
func part(size, at int) int { return size * at / 1000 }
