package settings

import (
	"runtime/debug"
	"strings"
)

// Version says of what source a program was built, as Go noted it: the commit, its time, and whether
// files were changed since.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}

	noted := map[string]string{}
	for _, s := range info.Settings {
		noted[s.Key] = s.Value
	}

	if noted["vcs.revision"] == "" {
		return "of an unknown commit (go build -buildvcs=true notes it), " + info.GoVersion
	}

	text := noted["vcs.revision"][:min(12, len(noted["vcs.revision"]))] + " of " +
		strings.Replace(noted["vcs.time"], "T", " ", 1)
	if noted["vcs.modified"] == "true" {
		text += ", changed since"
	}

	return text + ", " + info.GoVersion
}
