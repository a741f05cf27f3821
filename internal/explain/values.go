// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"math/rand/v2"
	"net/url"
	"strconv"
)

// Path is where the admin API explains a query, whose Values are the query of the URL.
const Path = "/xlb/explain"

// Values are a query as parameters of a URL: method, url, header (repeated), listener, draw, netns, view.
func (q *Query) Values() url.Values {
	v := url.Values{"method": {q.Method}, "url": {q.URL}, "draw": {strconv.FormatUint(uint64(q.Draw), 10)}}
	if len(q.Headers) > 0 {
		v["header"] = q.Headers
	}
	if q.Listener != "" {
		v.Set("listener", q.Listener)
	}
	if q.Netns != 0 {
		v.Set("netns", strconv.FormatUint(q.Netns, 10))
	}
	if q.View != "" {
		v.Set("view", q.View)
	}
	return v
}

// QueryOf reads Values. Without a draw there is a random one; without a method, GET.
// Parameters with other names are refused with a *QueryError: one that is misspelt
// would change the answer.
func QueryOf(v url.Values) (*Query, error) {
	q := &Query{Method: "GET", Draw: rand.Uint32()}
	for name, values := range v {
		if name != "header" && len(values) != 1 {
			return nil, queryError("parameter %q: given %d times; give it once", name, len(values))
		}
		switch name {
		case "method":
			q.Method = values[0]
		case "url":
			q.URL = values[0]
		case "header":
			q.Headers = values
		case "listener":
			q.Listener = values[0]
		case "draw":
			draw, err := strconv.ParseUint(values[0], 10, 32)
			if err != nil {
				return nil, queryError("draw %q: want a number of 32 bits", values[0])
			}
			q.Draw = uint32(draw)
		case "netns":
			netns, err := strconv.ParseUint(values[0], 10, 64)
			if err != nil || netns == 0 {
				return nil, queryError("netns %.40q: want the inode number of a network namespace, as readlink /proc/PID/ns/net shows it", values[0])
			}
			q.Netns = netns
		case "view":
			q.View = values[0]
		default:
			return nil, queryError("parameter %q: unknown; there are method, url, header, listener, draw, netns and view", name)
		}
	}
	return q, nil
}
