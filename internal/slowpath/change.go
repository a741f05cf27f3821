// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"slices"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
)

// changeRequest applies what the route, and all that it is part of, asks of request headers.
// As in Envoy the cluster's host is there when the route's own levels are evaluated.
func (x *exchange) changeRequest() {
	for l := range x.levels {
		change(&x.head.Fields, &l.Request, func(f model.Format) string { return x.format(f, nil) })
		if l == &x.share.Changes && x.share.Host != "" {
			x.head.Authority = x.share.Host
		}
	}
}

// changeResponse returns a response's fields with what the route asks of them.
func (x *exchange) changeResponse(resp *formatResponse) []field {
	for l := range x.levels {
		change(&resp.fields, &l.Response, func(f model.Format) string { return x.format(f, resp) })
	}
	return resp.fields
}

// levels yields those of the cluster and of the route. A request without a route has none.
func (x *exchange) levels(yield func(*model.HeaderLevel) bool) {
	if x.route == nil || x.share != nil && !yield(&x.share.Changes) {
		return
	}
	for _, l := range x.route.Levels {
		if !yield(l) {
			return
		}
	}
}

// change makes one level's changes, in Envoy's order: what is removed, what is
// overwritten, what is added. All values are evaluated between the first two.
func change(fields *[]field, c *model.HeaderChanges, value func(model.Format) string) {
	if c.IsZero() {
		return
	}
	*fields = h1.EndToEnd(*fields)
	for _, name := range c.Remove {
		*fields = without(*fields, name)
	}
	var overwrite, add []field
	for i := range c.Set {
		s := &c.Set[i]
		v := value(s.Value)
		if v == "" && !s.KeepEmpty {
			continue
		}
		exists := slices.ContainsFunc(*fields, func(f field) bool { return f.Is(s.Name) })
		switch one := (field{Name: []byte(s.Name), Value: []byte(v)}); {
		case s.How == model.AppendOrAdd, s.How == model.AddIfAbsent && !exists:
			add = append(add, one)
		case s.How == model.OverwriteOrAdd, s.How == model.OverwriteIfExists && exists:
			overwrite = append(overwrite, one)
		}
	}
	for _, f := range overwrite {
		*fields = append(without(*fields, string(f.Name)), f)
	}
	*fields = append(*fields, add...)
}

func without(fields []field, name string) []field {
	return slices.DeleteFunc(fields, func(f field) bool { return f.Is(name) })
}
