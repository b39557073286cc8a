package stream

import "github.com/liquida/liquida/platform/pix"

// Admin is the user that may do everything. Bootstrap uses it. It exists before the others:
// the broker's configuration has its password.
const Admin = "admin"

// Access is what one user may do at a secured broker. What is not here is forbidden.
type Access struct {
	User   string
	Reads  []string // topics
	Writes []string // topics
	Joins  []string // consumer groups
	// Foreign says that programs of others are this user: what it writes has a quota.
	Foreign bool
	Sees    []string // groups whose offsets it may read
}

// Accesses lists all users but Admin. Bootstrap creates them and grants what is listed.
var Accesses = []Access{
	// It publishes payments and shows how they end, dead letters too. Of the payments it reads the first batch of
	// each partition, and the checkpoints: log and ledger must belong together.
	// It shows each bank what it is asked, and writes the answers that banks seal.
	{User: "producer", Writes: []string{Payments, AuthorizationResponses},
		Reads: []string{Payments, AuthorizationRequests, Settlements, DeadLetters, Checkpoints},
		Sees:  []string{EngineGroup}}, // for the backlog
	// It alone writes how payments end, and what is finished.
	{User: "clearing-engine", Joins: []string{EngineGroup},
		Reads:  []string{Payments, AuthorizationResponses, Settlements, DeadLetters, Checkpoints},
		Writes: []string{AuthorizationRequests, Settlements, DeadLetters, Checkpoints},
	},
	// All receiving banks. Seals decide for which of them it may respond: see platform/keys.
	{User: "bank-simulator", Foreign: true, Joins: []string{BankGroup},
		Reads:  []string{AuthorizationRequests},
		Writes: []string{AuthorizationResponses},
	},
	// Load and audit: it pays like a bank and reads what the audit needs. The chaos test, which
	// also forges responses, is Admin.
	{User: "loadtest", Foreign: true, Writes: []string{Payments},
		Reads: []string{Payments, AuthorizationRequests, AuthorizationResponses, Settlements, DeadLetters, Checkpoints},
		Sees:  []string{EngineGroup}},
	// The control room shows all messages, and writes none.
	{User: "room", Reads: []string{Payments, AuthorizationRequests, AuthorizationResponses, Settlements, DeadLetters,
		Checkpoints}, Sees: []string{EngineGroup}},
}

// ParticipantAccess is the access of a bank's own program: it answers for the bank, whose seal decides
// for whom. It may not write payments, which anybody's name could stand on, nor read how those of
// others end: for both the front door asks for the bank's key.
func ParticipantAccess(psp pix.ISPB) Access {
	name := "participant-" + string(psp)
	return Access{User: name, Foreign: true, Joins: []string{name}, Reads: []string{AuthorizationRequests},
		Writes: []string{AuthorizationResponses}}
}
