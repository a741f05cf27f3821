// SPDX-License-Identifier: Apache-2.0

// Package docs holds the documentation to the tree: what a page links to or names is there.
package docs
