// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"time"

	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	cookiev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/cookie/v3"
	headerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/header/v3"
	"golang.org/x/net/http/httpguts"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// session translates the filter's configuration; nil for one that does nothing.
func (t *translator) session(in *sessionv3.StatefulSession, path string) *model.Session {
	state := in.GetSessionState().GetTypedConfig()
	if in.GetSessionState() == nil {
		return nil
	}
	out := &model.Session{Strict: in.GetStrict()}
	if status := in.GetStatusOnStrictDestinationNotFound(); out.Strict && status != 0 {
		out.NotFound = int(status)
		if status < 200 || status > 599 {
			t.p.Add(path+".status_on_strict_destination_not_found", "%d is no status of an answer; use 200 to 599", status)
		}
	}
	path += ".session_state.typed_config"
	if header := (&headerv3.HeaderBasedSessionState{}); state.MessageIs(header) {
		if t.Unpack(state, header, path, "HeaderBasedSessionState") {
			out.Header = t.headers.Name(header.GetName(), path+".name")
		}
		return out
	}
	cookie := &cookiev3.CookieBasedSessionState{}
	if !t.Unpack(state, cookie, path, "CookieBasedSessionState or HeaderBasedSessionState") {
		return nil
	}
	t.sessionCookie(out, cookie, path+".cookie")
	return out
}

func (t *translator) sessionCookie(out *model.Session, state *cookiev3.CookieBasedSessionState, path string) {
	c := state.GetCookie()
	out.Cookie = c.GetName()
	if !httpguts.ValidHeaderFieldName(c.GetName()) {
		t.p.Add(path+".name", "%q is no name of a cookie that can be set; write a token (RFC 6265 section 4.1.1)", c.GetName())
	}
	out.New = model.NewCookie{TTL: t.Duration(c.GetTtl(), 0, path+".ttl").Truncate(time.Second), Path: c.GetPath()}
	t.inCookie(c.GetPath(), path+".path")
	for i, a := range c.GetAttributes() {
		out.New.Attributes = append(out.New.Attributes, model.CookieAttribute{Name: a.GetName(), Value: a.GetValue()})
		t.inCookie(a.GetName(), problem.At(path+".attributes", i)+".name")
		t.inCookie(a.GetValue(), problem.At(path+".attributes", i)+".value")
	}
}

// routeSession is what a route, or what it is part of, has in place of the filter's own.
func (t *translator) routeSession(in *sessionv3.StatefulSessionPerRoute, path string) *model.Session {
	if in.GetDisabled() {
		return nil
	}
	return t.session(in.GetStatefulSession(), path+".stateful_session")
}
