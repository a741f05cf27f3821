// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// answer is a response that a client reads and judges.
type answer struct {
	*conversation
	plan   *Plan
	server string
}

func (c *conversation) answer(plan *Plan) *answer { return &answer{conversation: c, plan: plan} }

// read reads the response and tells whether the connection can serve another
// request. proceed, if there is one, is called when the request's body is wanted.
func (a *answer) read(proceed func()) (keep bool) {
	if a.plan.Client == clientPauses {
		time.Sleep(a.plan.ClientPause)
	}
	response, ok := a.readHead(proceed)
	if !ok {
		return false
	}
	a.server = response.Header.Get(serverField)
	if response.Header.Get(idField) == "" {
		return a.readLocal(response)
	}
	if !a.checkHead(response) {
		return false
	}
	if a.plan.Upgrade {
		a.tunnel()
		return false
	}
	return a.readBody(response) && !response.Close
}

// readHead reads up to the final head.
func (a *answer) readHead(proceed func()) (*http.Response, bool) {
	for {
		if _, err := a.reader.Peek(1); err != nil {
			a.broken(err, Reset, Closed)
			return nil, false
		}
		response, err := http.ReadResponse(a.reader, &http.Request{Method: a.plan.Method})
		if err != nil {
			a.broken(a.wire.cause(err), Reset, ClosedInHead)
			return nil, false
		}
		if response.StatusCode >= http.StatusOK || response.StatusCode == http.StatusSwitchingProtocols {
			return response, true
		}
		if id := response.Header.Get(idField); id != "" && id != a.plan.ID.String() {
			a.fail("an informational response of another request", &Failure{Got: id})
			return nil, false
		}
		if response.StatusCode == http.StatusContinue && proceed != nil {
			proceed()
		}
	}
}

// broken judges an end that came too soon: one that the client can see is the
// price of faults, anything else is a failure.
func (a *answer) broken(err error, reset, closed Count) {
	switch {
	case isTimeout(err):
		a.fail(fmt.Sprintf("no byte for %v", HangBound), nil)
	case a.plan.clientLeaves():
		a.ledger.count(Left)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		a.ledger.count(reset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		a.ledger.count(closed)
	default:
		a.fail("not HTTP: "+err.Error(), &Failure{Got: string(a.wire.last)})
	}
}

// localReplies are the statuses with which XLB answers for an endpoint or for a
// client that is late.
var localReplies = map[int]Count{
	http.StatusBadRequest: LocalBadRequest, http.StatusRequestTimeout: LocalTimeout, http.StatusBadGateway: LocalBadGateway,
	http.StatusServiceUnavailable: LocalUnavailable, http.StatusGatewayTimeout: LocalGatewayTimeout,
}

// readLocal judges a response that no server of ours sent.
func (a *answer) readLocal(response *http.Response) (keep bool) {
	count, known := localReplies[response.StatusCode]
	if !known || count == LocalBadRequest && a.plan.Client != clientHalfClosesEarly {
		a.fail(fmt.Sprintf("a local reply of %d to a good request", response.StatusCode), &Failure{Got: string(a.wire.last)})
		return false
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		a.broken(err, ResetInResponse, ClosedInBody)
		return false
	}
	a.ledger.count(count)
	return !response.Close
}

// checkHead compares what a server put into the head with the plan.
func (a *answer) checkHead(response *http.Response) bool {
	checks := []struct{ what, got, want string }{
		// The first, because it names the owner.
		{idField, response.Header.Get(idField), a.plan.ID.String()},
		{"status", fmt.Sprint(response.StatusCode), fmt.Sprint(a.plan.Status)},
		{paddingField, response.Header.Get(paddingField), paddingText(a.spec.Seed, a.plan.ID, responseBody, a.plan.ResponsePadding)},
	}
	for _, c := range checks {
		if c.got != c.want {
			a.fail("the head differs in "+c.what, &Failure{Want: c.want, Got: c.got})
			return false
		}
	}
	return true
}

func (a *answer) readBody(response *http.Response) (ok bool) {
	v := newVerifier(a.spec.Seed, a.plan.ID, responseBody, a.plan.bodySize())
	defer func() { a.ledger.add(ResponseBytes, v.seen) }()
	stop := int64(part(a.plan.bodySize(), a.plan.ClientAt))
	switch a.plan.Client {
	case clientResetsInResponse, clientAbandonsResponse:
		_, err := io.CopyN(v, response.Body, stop)
		return a.leave(v, err)
	case clientPauses:
		if _, err := io.CopyN(v, response.Body, stop); err != nil {
			return a.endOfBody(v, err)
		}
		time.Sleep(a.plan.ClientPause)
	}
	_, err := io.Copy(v, response.Body)
	return a.endOfBody(v, err)
}

// leave goes away in the middle of a response that was right so far.
func (a *answer) leave(v *verifier, err error) (keep bool) {
	if err != nil {
		return a.endOfBody(v, err)
	}
	if a.plan.Client == clientResetsInResponse {
		a.wire.reset()
	}
	a.ledger.count(Left)
	return false
}

// endOfBody judges how a body ended.
func (a *answer) endOfBody(v *verifier, err error) (ok bool) {
	var wrong *mismatch
	switch {
	case errors.As(err, &wrong):
		a.fail("the body differs", &Failure{Offset: wrong.Offset, Want: string(wrong.Want), Got: string(wrong.Got)})
	case err != nil && !errors.Is(err, io.EOF):
		a.broken(a.wire.cause(err), ResetInResponse, ClosedInBody)
	case v.seen < v.size:
		a.short("a body that is short and ends cleanly", v)
	default:
		a.right(OK)
		return true
	}
	return false
}

// short reports an end before the last byte that looks clean. Where the server's
// close is the only end, its death looks the same.
func (a *answer) short(what string, v *verifier) {
	f := &Failure{Offset: v.seen, Want: fmt.Sprintf("%d bytes", v.size), Got: fmt.Sprintf("%d bytes", v.seen)}
	f.UnlessKilled = a.plan.Upgrade || a.plan.ResponseFraming == framingClose
	a.fail(what, f)
}

func (a *answer) right(c Count) {
	a.ledger.count(c)
	if a.plan.calm() {
		a.ledger.count(CalmOK)
	}
}

func (a *answer) fail(what string, f *Failure) {
	if f == nil {
		f = &Failure{}
	}
	f.Side, f.What, f.ID, f.Server, f.Plan = "client", what, a.plan.ID, a.server, a.plan
	f.Got = strings.ToValidUTF8(f.Got, "\uFFFD")
	a.ledger.fail(f)
}
