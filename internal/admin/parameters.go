// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// parameter is one that a page takes in its query.
type parameter struct {
	name string
	// values are all that it may have; nil for any.
	values []string
}

// formats are the forms that a page's answer has; it names them by Envoy's parameter.
func formats(values ...string) parameter { return parameter{name: "format", values: values} }

// asked serves a page that takes no other parameters than these, each once. Envoy passes over what it does not know; an answer to another question than
// the one that was asked helps nobody.
func asked(serve http.HandlerFunc, takes ...parameter) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query, err := queryOf(r)
		if err == nil {
			err = understood(query, r.URL.Path, takes)
		}
		if err != nil {
			writeText(w, http.StatusBadRequest, err.Error()+"\n")
			return
		}
		serve(w, r)
	}
}

// WithoutParameters serves what takes no parameters at all, and answers 400 to those who send some.
func WithoutParameters(h http.Handler) http.Handler { return asked(h.ServeHTTP) }

// queryOf is the query of a request. That of net/url leaves out what it cannot read.
func queryOf(r *http.Request) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("query %q: %w; want name=value, with & between them and other characters as %%XX", r.URL.RawQuery, err)
	}
	return query, nil
}

func understood(query url.Values, path string, takes []parameter) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		at := slices.IndexFunc(takes, func(p parameter) bool { return p.name == name })
		if at < 0 {
			return fmt.Errorf("parameter %q: unknown; %s takes %s", name, path, namesOf(takes))
		}
		if n := len(query[name]); n > 1 {
			return fmt.Errorf("parameter %q: given %d times; give it once", name, n)
		}
		if value := query.Get(name); takes[at].values != nil && !slices.Contains(takes[at].values, value) {
			return fmt.Errorf("parameter %q: %q is none of its values; %s answers with %s", name, value, path, strings.Join(takes[at].values, ", "))
		}
	}
	return nil
}

func namesOf(takes []parameter) string {
	if len(takes) == 0 {
		return "none"
	}
	names := make([]string, len(takes))
	for i, p := range takes {
		names[i] = p.name
	}
	return strings.Join(names, ", ")
}
