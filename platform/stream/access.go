package stream

// Admin is the user that may do everything: bootstrap is it. It is there before all others,
// so the broker is told its password, not asked to make one.
const Admin = "admin"

// Access is what one user may do at a broker with locks. What is not here is forbidden.
type Access struct {
	User   string
	Reads  []string // topics
	Writes []string // topics
	Joins  []string // consumer groups
	// Sees are topics whose ends, and groups whose offsets it may ask for, besides those above.
	Sees struct{ Topics, Groups []string }
}

// Accesses lists every user but Admin. Bootstrap makes the users and tells the broker.
var Accesses = []Access{
	// It takes payments and tells how they ended. What banks and engines say is not its business.
	{User: "producer", Writes: []string{Payments}, Reads: []string{Settlements}, Sees: sees{
		[]string{DeadLetters}, []string{EngineGroup}, // for the backlog
	}},
	// It alone says how payments ended.
	{User: "clearing-engine", Joins: []string{EngineGroup},
		Reads:  []string{Payments, AuthorizationResponses},
		Writes: []string{AuthorizationRequests, Settlements, DeadLetters},
	},
	// All receiving banks. For which of them it may answer, the seals say: see platform/keys.
	{User: "bank-simulator", Joins: []string{BankGroup},
		Reads:  []string{AuthorizationRequests},
		Writes: []string{AuthorizationResponses},
	},
	// Load and audit: it pays like a bank, and reads what the audit must. The chaos test, which
	// also forges answers, is Admin.
	{User: "loadtest", Writes: []string{Payments}, Reads: []string{Payments, Settlements, DeadLetters}, Sees: sees{
		Groups: []string{EngineGroup},
	}},
}

type sees = struct{ Topics, Groups []string }
