package chaos

func (r *Result) WriteReport(path string) error { return nil }
