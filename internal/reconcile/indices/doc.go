// SPDX-License-Identifier: Apache-2.0

// Package indices hands out the indices of the maps in which entries lie in rows, and of shared arrays; and numbers for entries that are given to others in the course of time.
package indices
