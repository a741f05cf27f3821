// SPDX-License-Identifier: Apache-2.0

// Package bed is where turns take place. A Bed is a topology of package lab with
// its endpoints running; Turn puts a peer into it, has package clients make the
// load, and returns a figures.Measurement.
//
// A case that needs more than endpoints and a load has a file of its name:
// chain.go, changes.go, density.go, interference.go, least.go, rate.go, rules.go
// and app.go. The rate case looks at kernel programs, too: programs.go.
package bed
