// SPDX-License-Identifier: Apache-2.0

package match

import (
	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/model"
)

// Builder indexes the tables of one configuration after another. Its methods must not be called at the
// same time.
type Builder struct {
	automata *dfa.Memo
	lazies   *shelf
	before   map[*model.RouteTable]*Table
}

// NewBuilder returns a builder.
func NewBuilder() *Builder { return &Builder{automata: dfa.NewMemo(limits()), lazies: &shelf{}} }

// limits are those of automata. Of expressions that roam they hold some hundred: more would take seconds to make, and more than a processor's cache
// holds, while a sieve leaves most of them out in no time.
func limits() dfa.Limits {
	l := dfa.Default()
	l.UnanchoredBytes = 256 << 10
	return l
}

// Build returns the index of each table of a configuration. A table whose pointer is the same as in the
// configuration before is not indexed again, nor are automata of the same expressions made again. All
// tables together take no more steps than dfa.Default allows.
func (b *Builder) Build(cfg *model.Config) map[*model.RouteTable]*Table {
	now := make(map[*model.RouteTable]*Table, len(cfg.Listeners))
	compiler := b.automata.Compiler()
	for _, l := range cfg.Listeners {
		if l.Routes == nil || now[l.Routes] != nil {
			continue
		}
		t := b.before[l.Routes]
		if t == nil {
			t = newTable(l.Routes, compiler, b.lazies)
		}
		now[l.Routes] = t
	}
	b.before = now
	b.automata.EndRound()
	return now
}
