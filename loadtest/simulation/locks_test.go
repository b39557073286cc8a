//go:build synctests

package simulation

// withLocks reports whether the Kafka client of this program has the locks of synctests.
const withLocks = true
