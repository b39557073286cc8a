//go:build !synctests

package simulation

const withLocks = false
