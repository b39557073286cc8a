// Package compose carries the files of docker-compose.yml that a program reads, too.
package compose

import _ "embed"

// RedpandaBootstrap is the .bootstrap.yaml of the Redpanda in docker-compose.yml.
//
//go:embed redpanda-bootstrap.yaml
var RedpandaBootstrap []byte
