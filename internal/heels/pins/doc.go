// SPDX-License-Identifier: Apache-2.0

// Package pins is the pin directory of an agent: whether it can be one, its lock, and the links in it, by which programs are attached to interfaces and
// cgroups. What is pinned outlives the agent, and the next one takes it over.
package pins
