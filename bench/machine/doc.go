// SPDX-License-Identifier: Apache-2.0

// Package machine describes where a run took place: kernel, processors, versions
// of the programs, and the sysctls that bear on the figures.
package machine
