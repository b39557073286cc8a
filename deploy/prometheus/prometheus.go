// Package prometheus holds the configuration of Prometheus and of the statsd bridge, which reads
// TigerBeetle's metrics. Containers use the files, the local stack uses Local.
package prometheus

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed prometheus.yml rules.yml statsd.yml
var files embed.FS

// Names of the files that Local writes.
const (
	ConfigFile = "prometheus.yml"
	RulesFile  = "rules.yml"
	BridgeFile = "statsd.yml"
)

// Local writes the configuration for processes on this machine into folder. targets holds the
// addresses of each job's processes; a job without any is left out. A running Prometheus notices
// new targets of a job that it knows.
func Local(folder string, targets map[string][]string) error {
	text, err := files.ReadFile(ConfigFile)
	if err != nil {
		return err
	}

	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("%s: %w", ConfigFile, err)
	}
	var jobs []any

	for _, item := range config["scrape_configs"].([]any) {
		job := item.(map[string]any)

		name := job["job_name"].(string)
		if len(targets[name]) == 0 {
			continue
		}

		for key := range job {
			if strings.HasSuffix(key, "_sd_configs") || key == "static_configs" {
				delete(job, key)
			}
		}

		found, err := yaml.Marshal([]any{map[string]any{"targets": targets[name]}})
		if err != nil {
			return err
		}

		if err := write(filepath.Join(folder, "targets", name+".yml"), found); err != nil {
			return err
		}
		job["file_sd_configs"] = []any{map[string]any{"files": []string{"targets/" + name + ".yml"}}}
		jobs = append(jobs, job)
	}
	config["scrape_configs"] = jobs

	text, err = yaml.Marshal(config)
	for _, name := range []string{ConfigFile, RulesFile, BridgeFile} {
		if err == nil && name != ConfigFile {
			text, err = files.ReadFile(name)
		}

		if err == nil {
			err = write(filepath.Join(folder, name), text)
		}
	}

	return err
}

// write replaces the file at once, because Prometheus may be reading it.
func write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}

	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return err
	}

	return os.Rename(path+".new", path)
}
