mod counting;
mod ending;
mod gangs;
mod per_index;
mod properties;
mod scaling;
