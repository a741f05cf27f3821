// SPDX-License-Identifier: Apache-2.0

// Package indices hands out the indices of the maps in which entries lie in rows, and of shared arrays.
package indices
