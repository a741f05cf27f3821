// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"slices"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
)

// ChangeRequest applies what the route, and all that it is part of, asks of request headers.
// As in Envoy the cluster's host is there when the route's own levels are evaluated.
func (r *Request) ChangeRequest() {
	for l := range r.levels {
		change(&r.Head.Fields, &l.Request, func(f rewrite.Format) string { return r.format(f, nil) })
		if l == &r.Share.Changes && r.Share.Host != "" {
			r.Head.Authority = r.Share.Host
		}
	}
}

// ChangeResponse returns a response's fields with what the route asks of them. local: no endpoint has made it.
func (r *Request) ChangeResponse(status int, local bool, fields []head.Field) []head.Field {
	resp := &response{status, local, fields}
	for l := range r.levels {
		change(&resp.fields, &l.Response, func(f rewrite.Format) string { return r.format(f, resp) })
	}
	return resp.fields
}

// levels yields those of the cluster and of the route. A request without a route has none.
func (r *Request) levels(yield func(*rewrite.HeaderLevel) bool) {
	if r.Route == nil || r.Share != nil && !yield(&r.Share.Changes) {
		return
	}
	for _, l := range r.Route.Levels {
		if !yield(l) {
			return
		}
	}
}

// change makes one level's changes, in Envoy's order: what is removed, what is
// overwritten, what is added. All values are evaluated between the first two.
func change(fields *[]head.Field, c *rewrite.HeaderChanges, value func(rewrite.Format) string) {
	if c.IsZero() {
		return
	}
	*fields = h1.EndToEnd(*fields)
	for _, name := range c.Remove {
		*fields = Without(*fields, name)
	}
	var overwrite, add []head.Field
	for i := range c.Set {
		s := &c.Set[i]
		v := value(s.Value)
		if v == "" && !s.KeepEmpty {
			continue
		}
		exists := slices.ContainsFunc(*fields, func(f head.Field) bool { return f.Is(s.Name) })
		switch one := (head.Field{Name: []byte(s.Name), Value: []byte(v)}); {
		case s.How == rewrite.AppendOrAdd, s.How == rewrite.AddIfAbsent && !exists:
			add = append(add, one)
		case s.How == rewrite.OverwriteOrAdd, s.How == rewrite.OverwriteIfExists && exists:
			overwrite = append(overwrite, one)
		}
	}
	for _, f := range overwrite {
		*fields = append(Without(*fields, string(f.Name)), f)
	}
	*fields = append(*fields, add...)
}
