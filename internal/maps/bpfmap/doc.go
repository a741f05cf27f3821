// SPDX-License-Identifier: Apache-2.0

// Package bpfmap is the kernel's maps as Go has use for them: tables with typed keys and values, arrays in memory that daemon and programs share,
// arrays and hashes that grow. It knows the sizes of what they hold, and nothing else of it.
package bpfmap
