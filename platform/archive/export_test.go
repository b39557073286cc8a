package archive

// SetGroupRows changes the size of row groups, and returns it.
func SetGroupRows(rows int) int {
	before := groupRows
	groupRows = rows
	return before
}
