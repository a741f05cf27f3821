// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/memo"
)

// known is what is known of expressions from one configuration to the next.
type known struct {
	automata *dfa.Memo
	prefixes *memo.Memo[string, string]
}

// maxPrefixes is how many bytes of expressions, and of what they begin with, are kept.
const maxPrefixes = 8 << 20

func newKnown() *known {
	return &known{dfa.NewMemo(automataLimits()), memo.New[string, string](maxPrefixes)}
}

// automataLimits are such that one virtual host finds room for all its sets. Those that no other set has to be walked beside are larger,
// because each is one more walk for a request; where expressions multiply, several small sets hold more of them than a large one.
func automataLimits() dfa.Limits {
	limits := dfa.Default()
	limits.Sets = int(maps.MaxAutomata)
	limits.RoamingBytes = maxBlocks * int(maps.CellsPerBlock) * 2 / limits.Sets
	limits.SetBytes = 2 * limits.RoamingBytes
	return limits
}

func (k *known) endRound() {
	k.automata.EndRound()
	k.prefixes.EndRound()
}

// literalPrefix returns what begins every text that an expression matches as a whole.
func (k *known) literalPrefix(source string) string {
	prefix, is := k.prefixes.Get(source)
	if !is {
		prefix = literalPrefix(source)
		k.prefixes.Put(source, prefix, len(source)+len(prefix))
	}
	return prefix
}
