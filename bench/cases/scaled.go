// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"slices"
)

// Scaled is what the loads of these cases vary. It is exported because tests compare loads field by field.
type Scaled struct {
	// Size of a body in bytes, and Way, the message that has it; of the sizes case. In the rules case Way is what becomes of connections.
	Size int    `json:"size_bytes,omitempty"`
	Way  string `json:"way,omitempty"`
	// Share is the rate, in percent of what direct connections can do; of the rate case.
	Share int `json:"share_percent,omitempty"`
	// Hops is how many services are in the chain; of the chain case.
	Hops int `json:"hops,omitempty"`
	// Services is how many the host has; of the density case.
	Services int `json:"services,omitempty"`
	// Noise is how many connections the neighbour's clients have; of the interference case.
	Noise int `json:"noise,omitempty"`
	// Rules is how many unrelated services there are; of the rules case.
	Rules int `json:"rules,omitempty"`
	// Changes is how many there are a second; of the changes case.
	Changes int `json:"changes,omitempty"`
}

// Sized has bodies of so many bytes in the messages of one way.
func Sized(connections int, way string, size int) Load {
	return Load{Case: Sizes, Connections: connections, Scaled: Scaled{Size: size, Way: way}}
}

// AtShare sends a share of what direct connections can do, in percent.
func AtShare(connections, share int) Load {
	return Load{Case: Rate, Connections: connections, Scaled: Scaled{Share: share}}
}

// Chained asks a chain of so many services.
func Chained(connections, hops int) Load {
	return Load{Case: Chain, Connections: connections, Scaled: Scaled{Hops: hops}}
}

// Beside is the load of the watched clients of the interference case.
func Beside(connections, rate, noise int) Load {
	return Load{Case: Interference, Connections: connections, Rate: rate, Scaled: Scaled{Noise: noise}}
}

// IsScaled reports whether a load is one of these cases'.
func (l Load) IsScaled() bool { return slices.Contains(scaleCases, l.Case) }

// Title names what loads have in common that differ in their step alone.
func (l Load) Title() string {
	switch l.Case {
	case Connections, Density:
		return l.Case
	case Sizes:
		return fmt.Sprintf("%s, %s bodies, %d connections", l.Case, l.Way, l.Connections)
	case Interference:
		return fmt.Sprintf("%s, %d requests/s from %d connections watched", l.Case, l.Rate, l.Connections)
	case Rules:
		return fmt.Sprintf("%s, %d %s connections", l.Case, l.Connections, l.Way)
	case Changes:
		return fmt.Sprintf("%s, %d services of %d endpoints, %d requests/s", l.Case, ChangedServices, ChangedEndpoints, l.Rate)
	case Rate, Chain:
		return fmt.Sprintf("%s, %d connections", l.Case, l.Connections)
	}
	return l.String()
}

// Step is what the case varies.
func (l Load) Step() int {
	switch l.Case {
	case Connections, Density:
		return l.Connections
	case Sizes:
		return l.Size
	case Rate:
		return l.Share
	case Chain:
		return l.Hops
	case Interference:
		return l.Noise
	case Rules:
		return l.Rules
	case Changes:
		return l.Changes
	}
	return 0
}

// StepName is what the step counts.
func (l Load) StepName() string {
	switch l.Case {
	case Sizes:
		return "bytes"
	case Rate:
		return "% of direct"
	case Chain, Density:
		return "services"
	case Interference:
		return "neighbour's connections"
	case Rules:
		return "unrelated services"
	case Changes:
		return "changes/s"
	}
	return l.Case
}

// scaledString names one load.
func (l Load) scaledString() string {
	if l.Title() == l.StepName() {
		return fmt.Sprintf("%d %s", l.Step(), l.StepName())
	}
	return fmt.Sprintf("%s, %d %s", l.Title(), l.Step(), l.StepName())
}

// ComparedWith reports whether the figures of both loads are compared, so that they are measured in the same rounds.
func (l Load) ComparedWith(other Load) bool {
	return l.IsScaled() && l.Case == other.Case && l.Title() == other.Title()
}
