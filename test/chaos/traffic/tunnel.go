// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"errors"
	"io"
)

// tunnel sends bytes through an upgraded connection and reads them back.
func (a *answer) tunnel() {
	sent := make(chan error, 1)
	go func() {
		b := newPattern(a.spec.Seed, a.plan.ID, tunnelBytes).appendTo(nil, a.plan.RequestSize)
		err := a.wire.send(b, a.random(a.plan))
		if err == nil {
			err = a.wire.CloseWrite()
		}
		sent <- err
	}()
	v := newVerifier(a.spec.Seed, a.plan.ID, tunnelBytes, a.plan.RequestSize)
	a.readTunnel(v)
	a.ledger.add(ResponseBytes, v.seen)
	a.wire.Close()
	<-sent
}

func (a *answer) readTunnel(v *verifier) {
	if a.plan.clientLeaves() {
		_, err := io.CopyN(v, a.reader, int64(part(a.plan.RequestSize, a.plan.ClientAt)))
		if err == nil {
			a.leave(v, nil)
			return
		}
		a.endOfTunnel(v, err)
		return
	}
	_, err := io.Copy(v, a.reader)
	a.endOfTunnel(v, err)
}

func (a *answer) endOfTunnel(v *verifier, err error) {
	var wrong *mismatch
	switch {
	case errors.As(err, &wrong):
		a.fail("the tunnel's bytes differ", &Failure{Offset: wrong.Offset, Want: string(wrong.Want), Got: string(wrong.Got)})
	case err != nil && !errors.Is(err, io.EOF):
		a.broken(err, ResetInResponse, ClosedInBody)
	case v.seen < v.size:
		a.short("a tunnel that ends early and cleanly", v)
	default:
		a.right(TunnelOK)
	}
}

// echo is the server's end of a tunnel.
func (e *serverExchange) echo() {
	v := newVerifier(e.server.spec.Seed, e.plan.ID, tunnelBytes, e.plan.RequestSize)
	limit := int64(part(e.plan.RequestSize, e.plan.ServerAt))
	if e.plan.Server != serverResetsInResponse {
		limit = int64(e.plan.RequestSize) + 1
	}
	_, err := io.Copy(io.MultiWriter(v, e.wire), io.LimitReader(e.reader, limit))
	e.server.ledger.add(RequestBytes, v.seen)
	var wrong *mismatch
	switch {
	case errors.As(err, &wrong):
		e.fail("the tunnel's bytes differ", &Failure{Offset: wrong.Offset, Want: string(wrong.Want), Got: string(bytes.ToValidUTF8(wrong.Got, nil))})
	case isTimeout(err):
		e.fail("a tunnel that never ends", nil)
	case e.plan.Server == serverResetsInResponse:
		e.wire.reset()
	}
}
