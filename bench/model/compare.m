% The same through GNU Octave's queueing package: octave --no-gui compare.m
% qsmm1k takes vectors of rates; its closed form is the textbook's.
pkg load queueing
loads = 1.5e3 * (1:200);
service_s = 5.25e-6 + 64 / 748e6;
times = zeros(1, 20);
for i = 1:20
  tic; [U, R, Q, X] = qsmm1k(loads, 1 / service_s, 1024); times(i) = 1e3 * toc;
end
printf("ideal, 200 loads, qsmm1k: median %.3f ms, %.3f to %.3f (20x), answer %.17g\n", median(times), min(times), max(times), sum(X));
% A birth-death chain through ctmcbd and ctmc (dense) for one load.
rate = 1.5e5; B = 1024; times = zeros(1, 3);
for i = 1:3
  tic; p = ctmc(ctmcbd(rate * ones(1, B), ones(1, B) / service_s)); times(i) = 1e3 * toc;
end
printf("ideal, 1 load, ctmc (dense): median %.3f ms, %.3f to %.3f (3x), answer %.17g\n", median(times), min(times), max(times), rate * (1 - p(end)));
