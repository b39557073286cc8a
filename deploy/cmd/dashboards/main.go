// The dashboards command writes the JSON files that Grafana reads. Their source is the package
// dashboards.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/liquida/liquida/deploy/dashboards"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/settings"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "dashboards: writes deploy/grafana/dashboards/*.json from the package deploy/dashboards; it takes no arguments")
		os.Exit(settings.ExitBadUsage)
	}

	root, err := stack.RepoRoot()
	for _, d := range dashboards.All {
		if err == nil {
			err = os.WriteFile(filepath.Join(root, "deploy", "grafana", "dashboards", strings.ToLower(d.Title)+".json"),
				d.JSON(), 0o644)
		}
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(settings.ExitFailure)
	}
}
