// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"errors"
	"os"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/opening"
)

// errNoChain says that a listener has nothing for what a connection's first bytes are.
var errNoChain = errors.New("no filter chain matches the connection")

// chosen finds what serves a connection: a TCP proxy, which also sends on the bytes that have been read, or nil: the listener's routes. A connection that
// has carried requests stays one of HTTP, whatever has become of its listener.
func (p *Proxy) chosen(d *downstream) (*model.TCPProxy, []byte, error) {
	s := &d.session
	if s.Requests > 0 || s.Resumed != nil {
		return nil, nil, nil
	}
	if proxy := d.active.TCP(s.Listener); proxy != nil {
		return proxy, nil, nil
	}
	i := d.active.Inspection(s.Listener)
	if i == nil {
		return nil, nil, nil
	}
	found, err := d.inspect(i)
	if err != nil {
		return nil, nil, err
	}
	proxy, http := i.Serves(found)
	switch {
	case http:
		return nil, nil, nil
	case proxy == nil:
		return nil, nil, errNoChain
	}
	return proxy, *d.head, nil
}

// errSilent says that a client has not shown in time what it is.
var errSilent = errors.New("the connection does not begin with what a filter chain is chosen by (listener_filters_timeout)")

// inspect reads until it is known what the connection is, or the time for that is up. What it reads begins the first head.
func (d *downstream) inspect(i *model.Inspection) (*model.Opening, error) {
	late := func() (*model.Opening, error) {
		if !i.Continue {
			return nil, errSilent
		}
		return &model.Opening{}, nil
	}
	if i.Timeout > 0 {
		end := d.session.Opened.Add(i.Timeout)
		if !time.Now().Before(end) {
			return late()
		}
		if err := d.conn.SetReadDeadline(end); err != nil {
			return nil, err
		}
		defer func() { _ = d.conn.SetReadDeadline(time.Time{}) }()
	}
	var hello opening.Hello
	for {
		if found := opening.Of(i, *d.head, &hello); found != nil {
			return found, nil
		}
		err := d.fill()
		switch {
		case i.Timeout > 0 && errors.Is(err, os.ErrDeadlineExceeded):
			return late()
		case err != nil:
			return nil, err
		}
	}
}
