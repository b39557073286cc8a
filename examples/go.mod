module github.com/liquida/liquida/examples

go 1.26.0

require (
	github.com/liquida/liquida/client v0.0.0
	github.com/liquida/liquida/deploy v0.0.0
	github.com/liquida/liquida/platform v0.0.0
)

require (
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/twmb/franz-go v1.22.2 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/liquida/liquida/client => ../client

replace github.com/liquida/liquida/deploy => ../deploy

replace github.com/liquida/liquida/platform => ../platform

replace github.com/liquida/liquida/proto => ../proto
