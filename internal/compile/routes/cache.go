// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/memo"
)

// Cache keeps what has been compiled of expressions from one configuration to the next.
type Cache struct {
	automata *dfa.Memo
	prefixes *memo.Memo[string, string]
}

// maxPrefixes is how many bytes of expressions, and of what they begin with, are kept.
const maxPrefixes = 8 << 20

// NewCache returns an empty one.
func NewCache() *Cache {
	return &Cache{dfa.NewMemo(automataLimits()), memo.New[string, string](maxPrefixes)}
}

// automataLimits are such that one virtual host finds room for all its sets. Those that no other set has to be walked beside are larger,
// because each is one more walk for a request; where expressions multiply, several small sets hold more of them than a large one.
func automataLimits() dfa.Limits {
	limits := dfa.Default()
	limits.Sets = int(maps.MaxAutomata)
	limits.UnanchoredBytes = maxBlocks * int(maps.CellsPerBlock) * 2 / limits.Sets
	limits.SetBytes = 2 * limits.UnanchoredBytes
	return limits
}

// EndRound ends a configuration. What neither it nor the one before has used is dropped.
func (c *Cache) EndRound() {
	c.automata.EndRound()
	c.prefixes.EndRound()
}

// literalPrefix returns what begins every text that an expression matches as a whole.
func (c *Cache) literalPrefix(source string) string {
	prefix, is := c.prefixes.Get(source)
	if !is {
		prefix = literalPrefix(source)
		c.prefixes.Put(source, prefix, len(source)+len(prefix))
	}
	return prefix
}
