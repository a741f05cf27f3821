// SPDX-License-Identifier: Apache-2.0

// Package settings reads files of kind heels, and the files with keys that they name. It knows nothing of the machine that they are for.
package settings
