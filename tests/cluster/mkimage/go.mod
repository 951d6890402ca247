module modelway.io/tests/cluster/mkimage

go 1.26.0
