// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
)

// Listener is a row of /xlb/listeners.
type Listener struct {
	Name string `json:"name"`
	// View has the listener; empty: the shared one has.
	View    string         `json:"view,omitempty"`
	Address netip.AddrPort `json:"address"`
	// Protocol is "HTTP", or "TCP" where connections are balanced, whatever their bytes mean; "-" where the listener is left alone.
	Protocol string `json:"protocol"`
	// Bound is "yes" where the daemon takes connections itself, from other hosts too, or says why it cannot; "" where it need not.
	Bound string `json:"bound,omitempty"`
	// Intercepted: the kernel sends new connections to this address to us.
	Intercepted bool   `json:"intercepted"`
	RouteTable  string `json:"route_table"`
	Routes      int    `json:"routes"`
}

// Route is a row of /xlb/routes. Rows of one virtual host are in the order in which
// they are tried.
type Route struct {
	Listener string `json:"listener"`
	// View is that of the listener.
	View        string   `json:"view,omitempty"`
	VirtualHost string   `json:"virtual_host"`
	Domains     []string `json:"domains"`
	Match       string   `json:"match"`
	// Headers are the conditions besides the path: on headers, query parameters, cookies and the like.
	Headers []string `json:"headers"`
	// Clusters with their weights when there are several, or what the route answers itself.
	Clusters []string `json:"clusters"`
	// Timeout in Go's notation, "0s" for none.
	Timeout string `json:"timeout"`
}

// Cluster is a row of /xlb/clusters.
type Cluster struct {
	Name string `json:"name"`
	// View has the cluster; empty: the shared one has, or several Views have it together.
	View        string   `json:"view,omitempty"`
	Views       []string `json:"views,omitempty"`
	Type        string   `json:"type"`
	Policy      string   `json:"policy"`
	Endpoints   uint64   `json:"endpoints"`
	Healthy     uint64   `json:"healthy"`
	Connections uint64   `json:"connections"`
	Outstanding uint64   `json:"outstanding"`
	Requests    uint64   `json:"requests"`
	// LeftOut says which endpoints get no requests.
	LeftOut string `json:"left_out,omitempty"`
}

// Endpoint is a row of /xlb/endpoints.
type Endpoint struct {
	Cluster string `json:"cluster"`
	// View and Views are those of the cluster.
	View  string   `json:"view,omitempty"`
	Views []string `json:"views,omitempty"`
	metrics.EndpointSnapshot
}

// Pool is a row of /xlb/pools.
type Pool struct {
	Cluster string `json:"cluster"`
	// View and Views are those of the cluster.
	View     string         `json:"view,omitempty"`
	Views    []string       `json:"views,omitempty"`
	Endpoint netip.AddrPort `json:"endpoint"`
	metrics.Pool
}

func protocolOf(l *model.Listener) string {
	if l.TCP != nil {
		return "TCP"
	}
	return "HTTP"
}

func (a *api) listenerRows() ([]Listener, error) {
	config := a.source.Config().Model
	listeners := config.Listeners
	list := make([]Listener, 0, len(listeners))
	for _, l := range listeners {
		intercepted, err := a.source.Intercepted(l)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.View.Listener(l.Name), err)
		}
		row := Listener{Name: l.Name, View: l.View.Name, Address: l.Address, Protocol: protocolOf(l), Bound: a.source.Bound(l), Intercepted: intercepted, RouteTable: l.Routes.Name}
		for _, vh := range l.Routes.VirtualHosts {
			row.Routes += len(vh.Routes)
		}
		list = append(list, row)
	}
	for _, p := range config.Passed {
		list = append(list, Listener{Name: p.Listener, View: p.View.Name, Address: p.Address, Protocol: "-"})
	}
	return list, nil
}

func (a *api) routeRows() ([]Route, error) {
	list := []Route{}
	for _, l := range a.source.Config().Model.Listeners {
		for _, vh := range l.Routes.VirtualHosts {
			for _, r := range vh.Routes {
				list = append(list, Route{
					Listener: l.Name, View: l.View.Name, VirtualHost: vh.Name, Domains: vh.Domains, Match: r.Path.Text(),
					Headers: r.Conditions(), Clusters: actionTexts(r), Timeout: r.Timeout.String(),
				})
			}
		}
	}
	return list, nil
}

func clusterTexts(r *model.Route) []string {
	texts := make([]string, 0, len(r.Clusters))
	for _, c := range r.Clusters {
		name := c.Name
		if c.Header != "" {
			name = "header " + c.Header
		}
		if c.Criteria != "" {
			name += " " + string(c.Criteria)
		}
		if len(r.Clusters) == 1 {
			return []string{name}
		}
		texts = append(texts, fmt.Sprintf("%s:%d", name, c.Weight))
	}
	return texts
}

func (a *api) clusterRows() ([]Cluster, error) {
	s, err := a.source.Snapshot()
	if err != nil {
		return nil, err
	}
	config := a.source.Config().Model
	list := make([]Cluster, 0, len(s.Clusters))
	for i := range s.Clusters {
		c := &s.Clusters[i]
		row := Cluster{Name: c.Name, View: c.View, Views: c.Views, Requests: c.Requests, Outstanding: c.Outstanding(), Connections: c.Connections()}
		row.Endpoints, row.Healthy = c.Members()
		// A reload may come between the two looks.
		if m := config.Cluster(c.Key()); m != nil {
			row.Type, row.Policy, row.LeftOut = m.Discovery.String(), m.Policy.String(), m.LeftOutText()
		}
		list = append(list, row)
	}
	return list, nil
}

func (a *api) endpointRows() ([]Endpoint, error) {
	s, err := a.source.Snapshot()
	if err != nil {
		return nil, err
	}
	list := []Endpoint{}
	for i := range s.Clusters {
		for _, e := range s.Clusters[i].Endpoints {
			list = append(list, Endpoint{Cluster: s.Clusters[i].Name, View: s.Clusters[i].View, Views: s.Clusters[i].Views, EndpointSnapshot: e})
		}
	}
	return list, nil
}

func (a *api) poolRows() ([]Pool, error) {
	s, err := a.source.Snapshot()
	if err != nil {
		return nil, err
	}
	list := []Pool{}
	for i := range s.Clusters {
		for _, e := range s.Clusters[i].Endpoints {
			list = append(list, Pool{Cluster: s.Clusters[i].Name, View: s.Clusters[i].View, Views: s.Clusters[i].Views, Endpoint: e.Address, Pool: e.Pool})
		}
	}
	return list, nil
}

func (a *api) connectionRows() ([]Connection, error) {
	list, err := a.source.Connections(maxConnectionsRows)
	if err != nil {
		return nil, err
	}
	if list == nil {
		list = []Connection{}
	}
	return list, nil
}

// seconds writes a duration as protobuf's JSON does: 1.5s.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}
