// SPDX-License-Identifier: Apache-2.0

// Package kernel is what the agent of HEELS and its kernel programs share: the programs and maps themselves, their types, and what the numbers in
// them mean. It loads and attaches nothing.
package kernel
