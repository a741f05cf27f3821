// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"strings"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// forwardedFor tells Envoy who the client is, if it is there.
const forwardedFor = "x-forwarded-for"

// hashProgram returns a route's hash policies as the kernel has them in Route.Hash, or says why it cannot evaluate them.
func (s *conditionSet) hashProgram(policies model.HashPolicies) (program uint32, reason string) {
	if len(policies) > int(maps.MaxHashPolicies) {
		return 0, fmt.Sprintf("%d hash policies, more than %d", len(policies), maps.MaxHashPolicies)
	}
	for i := range policies {
		code, reason := s.hashCode(&policies[i])
		if reason != "" {
			return 0, reason
		}
		program |= uint32(code) << (8 * i)
	}
	return program, ""
}

func (s *conditionSet) hashCode(p *model.HashPolicy) (code maps.HashPolicy, reason string) {
	name := p.Name
	switch {
	case p.Kind == model.HashCookie:
		return 0, "the hash of a cookie"
	case p.Rewrite != nil:
		return 0, "the hash of a rewritten header"
	case p.Kind == model.HashSourceIP:
		code, name = maps.HashSourceIP, forwardedFor
	case p.Kind == model.HashQuery:
		name = tables.ParameterMark + name
	case name == "host" || strings.HasPrefix(name, ":"):
		return 0, "the hash of " + name
	}
	number, reason := s.hashed(name)
	if p.Terminal {
		code |= maps.HashTerminal
	}
	return code | number, reason
}

// hashed gives a header or parameter the number by which policies know it, while there are some.
func (s *conditionSet) hashed(name string) (number maps.HashPolicy, reason string) {
	if reason := beyondLimits(condition{name: name, kind: matches}); reason != "" {
		return 0, reason
	}
	of := s.classes[name]
	if of == nil {
		of = &valueClasses{asked: make([]bool, tables.FirstClass)}
		s.classes[name] = of
	}
	if of.hash == 0 {
		if s.hashNumbers == int(maps.MaxHashed) {
			return 0, fmt.Sprintf("more than %d headers and query parameters that are hashed in one route table", maps.MaxHashed)
		}
		s.hashNumbers++
		of.hash = uint32(s.hashNumbers)
	}
	return maps.HashPolicy(of.hash), ""
}
