// Package prometheus holds the configuration of Prometheus and of the statsd bridge, which reads
// TigerBeetle's metrics. Containers use the files, the local stack uses Local.
package prometheus

import (
	"embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed prometheus.yml rules.yml statsd.yml
var files embed.FS

// Names of the files that Local writes.
const (
	ConfigFile = "prometheus.yml"
	RulesFile  = "rules.yml"
	BridgeFile = "statsd.yml"
)

// Local writes the configuration for processes on this machine into folder: all of the files but the jobs, which have
// the addresses of targets. A running Prometheus notices new targets of a job that it knows.
func Local(folder string, targets map[string][]string) error {
	written := map[string]string{}

	for _, name := range []string{ConfigFile, RulesFile, BridgeFile} {
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		written[name] = string(text)
	}
	config, _, _ := strings.Cut(written[ConfigFile], "scrape_configs:\n")
	config += "scrape_configs:\n"

	for _, job := range slices.Sorted(maps.Keys(targets)) {
		file := "targets/" + job + ".yml"
		config += fmt.Sprintf("  - {job_name: %s, file_sd_configs: [{files: [%s]}]}\n", job, file)
		written[file] = fmt.Sprintf("- targets: [%s]\n", strings.Join(targets[job], ", "))
	}
	written[ConfigFile] = config

	if err := os.MkdirAll(filepath.Join(folder, "targets"), 0o755); err != nil {
		return err
	}

	for name, text := range written { // each at once, because Prometheus may be reading it
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
			return err
		}

		if err := os.Rename(path+".new", path); err != nil {
			return err
		}
	}

	return nil
}
